{{- /* What several templates need. Names of objects are fixed: guards, agents and `batchgate` commands know them, and there
is one Batchgate in a cluster. Only the namespace is free. */ -}}

{{- /* CEL: whether a Job carries a key of ours or names a virtual node. The macros see one map each. */ -}}
{{- define "batchgate.namesUs" -}}
object.spec.template.spec.?nodeName.orValue('').endsWith('.batchgate')
|| [object.metadata.?labels.orValue({}), object.metadata.?annotations.orValue({}),
object.spec.template.?metadata.?labels.orValue({}), object.spec.template.?metadata.?annotations.orValue({}),
object.spec.template.spec.?nodeSelector.orValue({})].exists(m, m.exists(k, k.startsWith('batchgate.dev/')))
{{- end }}

{{- /* CEL: whether a user name (an expression) is an agent's. The accounts of sites' agents outside the cluster, which
`batchgate site add` makes, have the name of the agents' in the cluster, a hyphen and the site. */ -}}
{{- define "batchgate.isAgent" -}}
({{ .user }} + '-').startsWith('{{ include "batchgate.agentUser" .root }}-')
{{- end }}

{{- /* CEL: how the names of the Nodes end that an agent may write: of its own site, where its account is one site's. */ -}}
{{- define "batchgate.endOfAgentsNodes" -}}
(request.userInfo.username.startsWith('{{ include "batchgate.agentUser" . }}-')
? request.userInfo.username.replace('{{ include "batchgate.agentUser" . }}-', '.') : '') + '.batchgate'
{{- end }}

{{- define "batchgate.agentUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:batchgate-agent
{{- end }}

{{- define "batchgate.labels" -}}
app.kubernetes.io/part-of: batchgate
{{- end }}

{{- /* Image of a container: a dict of `image` (the chart's or an agent's own) and `root`. */ -}}
{{- define "batchgate.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end }}
{{- end }}

{{- /* The variables of OpenTelemetry's for webhook and agents; nothing without traces. */ -}}
{{- define "batchgate.tracing" -}}
{{- with .Values.tracing }}
{{- if .endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .endpoint | quote }}
{{- with .headersSecret }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom: { secretKeyRef: { name: {{ toYaml . }}, key: headers } }
{{- end }}
{{- range $name, $value := .variables }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "batchgate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "batchgate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* Where Pods run, and what else the values say of a Pod. */ -}}
{{- define "batchgate.placing" -}}
{{- $found := dict -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "priorityClassName" -}}
{{- with get $ $key }}{{ $_ := set $found $key . }}{{ end -}}
{{- end -}}
{{- if $found }}{{ toYaml $found }}{{ end -}}
{{- end }}

{{- define "batchgate.pulling" -}}
{{- $names := list -}}
{{- range .Values.imagePullSecrets }}{{ $names = append $names (dict "name" .) }}{{ end -}}
{{- if $names }}{{ toYaml (dict "imagePullSecrets" $names) }}{{ end -}}
{{- end }}

{{- define "batchgate.systemNamespaces" -}}
[kube-system, kube-public, kube-node-lease, {{ toYaml .Release.Namespace }}]
{{- end }}

{{- /* The namespaces whose Jobs the webhook judges: a dict of `root` and `namespaces`, opt-in or opt-out. The guard of
Jobs has the inverse. */ -}}
{{- define "batchgate.namespaceSelector" -}}
{{- if eq .namespaces "opt-in" -}}
# Namespaces opt in, but for the cluster's own. The overlay ../opt-out turns this round.
{{- end }}
namespaceSelector:
  matchExpressions:
    - key: batchgate.dev/gate
      {{- if eq .namespaces "opt-in" }}
      operator: In
      values: [enabled]
      {{- else }}
      operator: NotIn
      values: [disabled]
      {{- end }}
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{ include "batchgate.systemNamespaces" .root }}
{{- end }}

{{- /* Whom a webhook asks: a dict of `root` and `caBundle`, which may be empty where something else adds it. */ -}}
{{- define "batchgate.client" -}}
clientConfig:
  service: { name: batchgate, namespace: {{ toYaml .root.Release.Namespace }}, path: /mutate }
  {{- with .caBundle }}
  # The CA of the webhook's certificate.
  caBundle: {{ toYaml . }}
  {{- end }}
{{- end }}

{{- /* The list `webhooks` of the registration: a dict of `root`, `caBundle` as above, and `switching`: whether it is the
one between opt-in and opt-out. */ -}}
{{- define "batchgate.webhooks" -}}
{{- include "batchgate.jobsWebhook" . }}
{{- if .switching }}
{{ include "batchgate.switchingWebhook" . }}
{{- end }}
{{- end }}

{{- /* Its first entry, of the same dict. */ -}}
{{- define "batchgate.jobsWebhook" -}}
- name: jobs.batchgate.dev
  admissionReviewVersions: [v1]
  {{- include "batchgate.client" . | nindent 2 }}
  rules:
    - apiGroups: [batch]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [jobs]
      scope: Namespaced
  {{- $namespaces := ternary "opt-in" .root.Values.registration.namespaces .switching }}
  {{- include "batchgate.namespaceSelector" (dict "root" .root "namespaces" $namespaces) | nindent 2 }}
  # The Job controller updates Jobs as well: their end must not wait for us. What we judge is the spec, and what we
  # keep are our keys.
  matchConditions:
    - name: new-or-changed
      expression: >-
        request.operation == 'CREATE' || object.spec != oldObject.spec
        || object.metadata.?labels != oldObject.metadata.?labels
        || object.metadata.?annotations != oldObject.metadata.?annotations
    {{- range .root.Values.registration.matchConditions }}
    - name: {{ .name | quote }}
      # Never a Job that carries a key of ours or names a node of ours: it would be believed without having been judged.
      expression: {{ printf "(%s) || (%s)" .expression (include "batchgate.namesUs" $ | trim) | toJson }}
    {{- end }}
  # Fail: who opts in wants every Job judged. With Ignore a Job that a rule denies, or that would be too large for the
  # cloud, would run there while the webhook is away. Run two replicas; nothing but Jobs of these namespaces waits.
  failurePolicy: {{ .root.Values.registration.failurePolicy }}
  # Our timeouts are the API server's default.
  timeoutSeconds: {{ .root.Values.registration.timeoutSeconds }}
  # Another webhook may change a Job after us: the script must be of what is stored.
  reinvocationPolicy: IfNeeded
  matchPolicy: Equivalent
  sideEffects: None
{{- end }}

{{- /* Its second entry, only between opt-in and opt-out. */ -}}
{{- define "batchgate.switchingWebhook" -}}
# Between opt-in and opt-out, where a namespace without the label changes sides: its Jobs run unjudged as with opt-in, but
# those that name a virtual node are judged as with opt-out. So the guard may hold there or not.
- name: switching.jobs.batchgate.dev
  admissionReviewVersions: [v1]
  {{- include "batchgate.client" . | nindent 2 }}
  rules:
    - apiGroups: [batch]
      apiVersions: [v1]
      operations: [CREATE]
      resources: [jobs]
      scope: Namespaced
  namespaceSelector:
    matchExpressions:
      - key: batchgate.dev/gate
        operator: NotIn
        values: [enabled, disabled]
      - key: kubernetes.io/metadata.name
        operator: NotIn
        values: {{ include "batchgate.systemNamespaces" .root }}
  matchConditions:
    - name: names-a-virtual-node
      expression: object.spec.template.spec.?nodeName.orValue('').endsWith('.batchgate')
  failurePolicy: Fail
  timeoutSeconds: {{ .root.Values.registration.timeoutSeconds }}
  reinvocationPolicy: IfNeeded
  matchPolicy: Equivalent
  sideEffects: None
{{- end }}

{{- define "batchgate.keysDirectory" -}}
{{ .keysDirectory | default "/etc/batchgate/keys" }}
{{- end }}

{{- define "batchgate.knownHostsDirectory" -}}
{{ .knownHostsDirectory | default "/etc/batchgate/known-hosts" }}
{{- end }}

{{- define "batchgate.resultsDirectory" -}}
{{ .resultsDirectory | default "/results" }}
{{- end }}

{{- /* An agent's Deployment: names of sites may have capitals and underscores. */ -}}
{{- define "batchgate.agentName" -}}
batchgate-agent-{{ .site | lower | replace "_" "-" }}
{{- end }}

{{- /* Annotations of a hook: a dict of `on` and `weight`. Hooks are no part of a release, so that each goes by itself. */ -}}
{{- define "batchgate.hook" -}}
helm.sh/hook: {{ .on }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- /* A Pod of one command: a dict of `root`, `account` and `args`. It may have `restart`, its restart policy; `resources`
other than those of the hooks; and `decisions`, the claim of the decision log, to be read. */ -}}
{{- define "batchgate.commandPod" -}}
metadata:
  labels:
    app.kubernetes.io/name: {{ toYaml .account }}
spec:
  serviceAccountName: {{ .account }}
  restartPolicy: {{ .restart | default "Never" }}
  {{- with include "batchgate.pulling" .root }}
  {{- . | nindent 2 }}
  {{- end }}
  securityContext:
    {{- include "batchgate.podSecurity" .root | nindent 4 }}
  {{- with include "batchgate.placing" .root.Values.hooks }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
    - name: batchgate
      image: {{ include "batchgate.image" (dict "image" .root.Values.image "root" .root) }}
      {{- with .root.Values.image.pullPolicy }}
      imagePullPolicy: {{ . }}
      {{- end }}
      args: {{- toYaml .args | nindent 8 }}
      resources: {{- toYaml (.resources | default .root.Values.hooks.resources) | nindent 8 }}
      securityContext:
        {{- include "batchgate.containerSecurity" .root | nindent 8 }}
      {{- if .decisions }}
      volumeMounts:
        - { name: decisions, mountPath: /decisions, readOnly: true }
      {{- end }}
      # A failure is told in the log of the Pod's end.
      terminationMessagePolicy: FallbackToLogsOnError
  {{- with .decisions }}
  volumes:
    - name: decisions
      persistentVolumeClaim: { claimName: {{ toYaml . }} }
  {{- end }}
{{- end }}

{{- /* What `batchgate certs ensure` may do in its namespace. RBAC cannot limit `create` to names. */ -}}
{{- define "batchgate.certificateRules" -}}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [batchgate-webhook-ca, batchgate-webhook-tls, batchgate-signing-key]
  verbs: [get, update]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [batchgate-public-keys]
  verbs: [get, update]
# RBAC cannot name what is still to be created.
- apiGroups: [""]
  resources: [secrets, configmaps]
  verbs: [create]
{{- end }}

{{- define "batchgate.registrationRules" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [batchgate]
  verbs: [get, update]
# Which signing keys are still in use: an older one stays trusted until no Job and no Pod is signed with it.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
{{- end }}
