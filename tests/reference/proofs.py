"""For each row that is honoured or translated: a test in which that is seen, as ``file::function`` below ``tests``."""

from __future__ import annotations

from typing import Final

_FIELDS: Final = "agent/whole/test_jobfields.py"
_SECRETS: Final = "agent/whole/test_credentials.py::test_a_program_sees_the_same_on_a_real_node"
_TOKEN: Final = (
    "agent/whole/test_credentials.py::test_a_token_of_the_pod_with_what_programs_look_for_beside_it_and_renewed"
)
_LIFE: Final = "agent/whole/test_life.py"
_FILES: Final = "pod/test_files.py"
_INSIDE: Final = "script/test_apptainer.py"
_BY_INDEX: Final = f"{_FIELDS}::test_failures_are_counted_by_index"
_OWN: Final = f"{_FIELDS}::test_a_selector_of_the_users_own_and_a_finalizer"
_NAME: Final = "pod/test_hostname.py::test_containers_have_the_name_that_a_kubelet_gives_them"
_VALUES: Final = f"{_FILES}::test_values_from_elsewhere"
_PREFIX: Final = f"{_FILES}::test_env_from_in_order_with_prefix_and_overridden_by_env"
_MESSAGE: Final = "script/test_messages.py::test_what_a_program_says_last"
_NO_PRIVILEGES: Final = "script/test_privileges.py::test_a_container_has_no_privileges_and_gains_none"
_DEMANDS: Final = "agent/whole/test_demands.py::test_a_job_with_volumes_resources_and_the_nodes_network_runs"
_STAGED: Final = f"{_INSIDE}::test_staged_volumes_are_read_only_and_a_sub_path_is_one_file"
_NODES: Final = "agent/whole/test_nodelabels.py::test_a_job_that_selects_nodes_runs_on_a_queue_whose_nodes_are_so"
_PROJECTED: Final = f"{_FILES}::test_a_projected_volume_joins_its_sources"
_UNCHANGED: Final = "webhook/real/test_create.py::test_nothing_else_is_changed"
_SHARED: Final = f"{_INSIDE}::test_containers_share_an_empty_dir_and_have_a_tmp_each"

_AROUND: Final = "script/test_lifecycle.py"
_NAMING: Final = "script/test_naming.py"

PROOFS: Final = {
    "JobSpec.activeDeadlineSeconds": f"{_LIFE}::test_a_deadline_does_not_count_the_time_in_the_queue",
    "JobSpec.backoffLimit": f"{_LIFE}::test_a_program_that_fails_is_tried_again_as_often_as_its_job_says",
    "JobSpec.backoffLimitPerIndex": _BY_INDEX,
    "JobSpec.completionMode": f"{_LIFE}::test_an_indexed_job_runs_each_index_once",
    "JobSpec.completions": f"{_LIFE}::test_an_indexed_job_runs_each_index_once",
    "JobSpec.manualSelector": _OWN,
    "JobSpec.maxFailedIndexes": f"{_FIELDS}::test_too_many_failed_indexes_end_the_job",
    "JobSpec.parallelism": f"{_LIFE}::test_an_indexed_job_runs_each_index_once",
    "JobSpec.podFailurePolicy": f"{_FIELDS}::test_an_exit_code_that_the_jobs_own_failure_policy_names_ends_it",
    "JobSpec.podReplacementPolicy": "agent/whole/test_deletions.py::test_a_deleted_pod_is_replaced_only_after_its_end",
    "JobSpec.selector": _OWN,
    "JobSpec.successPolicy": f"{_FIELDS}::test_a_success_policy_ends_the_job_and_what_still_runs",
    "JobSpec.suspend": "agent/whole/test_suspension.py::test_a_job_resumed_as_soon_as_its_pods_are_gone_runs_at_once",
    "JobSpec.ttlSecondsAfterFinished": f"{_FIELDS}::test_a_job_that_is_deleted_when_it_has_ended_leaves_its_results",
    "ObjectMeta.annotations": _OWN,
    "ObjectMeta.labels": _OWN,
    "ObjectMeta.finalizers": _OWN,
    "PodSpec.activeDeadlineSeconds": "script/test_running.py::test_at_the_deadline_term_then_kill_and_the_exit_file_says_so",
    "PodSpec.automountServiceAccountToken": _TOKEN,
    "PodSpec.dnsConfig": f"{_NAMING}::test_else_they_are_added_to_the_nodes",
    "PodSpec.dnsPolicy": f"{_NAMING}::test_with_the_policy_none_only_the_pods_own_settings_count",
    "PodSpec.hostAliases": f"{_NAMING}::test_host_aliases_follow_the_other_lines",
    "PodSpec.hostname": _NAME,
    "PodSpec.hostnameOverride": _NAME,
    "PodSpec.imagePullSecrets": "agent/bed/test_images.py::test_a_private_image_is_pulled_with_the_pods_own_secret",
    "PodSpec.nodeSelector": _NODES,
    "PodSpec.overhead": "workload/test_resources.py::test_a_pod_asks_for_what_the_scheduler_reserves",
    "PodSpec.restartPolicy": f"{_LIFE}::test_on_failure_restarts_within_the_batch_job",
    "PodSpec.serviceAccount": _UNCHANGED,
    "PodSpec.serviceAccountName": _UNCHANGED,
    "PodSpec.setHostnameAsFQDN": _NAME,
    "PodSpec.subdomain": _NAME,
    "PodSpec.terminationGracePeriodSeconds": (
        "agent/whole/test_deletions.py::test_a_deletion_gives_the_container_its_grace_period"
    ),
    "Container.args": f"{_INSIDE}::test_values_arrive_byte_for_byte",
    "Container.command": f"{_INSIDE}::test_values_arrive_byte_for_byte",
    "Container.image": "agent/bed/test_images.py::test_what_an_image_says_counts_as_in_a_kubelet",
    "Container.imagePullPolicy": (
        "agent/bed/test_images.py::test_always_asks_which_image_a_tag_is_and_if_not_present_does_not"
    ),
    "Container.livenessProbe": (f"{_AROUND}::test_a_liveness_probe_that_fails_ends_the_container_and_it_runs_again"),
    "Container.name": f"{_LIFE}::test_init_container_and_sidecar",
    "Container.readinessProbe": f"{_AROUND}::test_readiness_is_shown_and_ends_nothing",
    "Container.restartPolicy": f"{_AROUND}::test_a_container_has_a_policy_of_its_own",
    "Container.restartPolicyRules": f"{_AROUND}::test_a_container_has_a_policy_of_its_own",
    "Container.startupProbe": f"{_AROUND}::test_other_probes_wait_for_the_startup_probe",
    "Container.terminationMessagePath": _MESSAGE,
    "Container.terminationMessagePolicy": _MESSAGE,
    "Container.workingDir": f"{_INSIDE}::test_the_working_directory",
    "Lifecycle.postStart": f"{_AROUND}::test_hooks_run_in_the_container_with_its_environment",
    "Lifecycle.preStop": f"{_AROUND}::test_hooks_run_in_the_container_with_its_environment",
    "EnvVar.name": f"{_INSIDE}::test_a_variable_of_any_name_has_its_value",
    "EnvVar.value": f"{_INSIDE}::test_values_arrive_byte_for_byte",
    "EnvVarSource.configMapKeyRef": f"{_LIFE}::test_a_config_map_that_comes_late_is_waited_for",
    "EnvVarSource.fieldRef": _VALUES,
    "EnvVarSource.resourceFieldRef": _VALUES,
    "EnvFromSource.configMapRef": _PREFIX,
    "EnvFromSource.secretRef": _SECRETS,
    "EnvVarSource.secretKeyRef": _SECRETS,
    "EnvFromSource.prefix": _PREFIX,
    "ResourceRequirements.limits": "workload/test_resources.py::test_memory_is_the_limit_and_says_what_the_request_is",
    "ResourceRequirements.requests": "workload/test_resources.py::test_cores_are_the_request_and_say_what_the_limit_is",
    "VolumeMount.mountPath": _SHARED,
    "VolumeMount.name": _SHARED,
    "VolumeMount.readOnly": f"{_INSIDE}::test_directories_of_the_site_whatever_their_names",
    "VolumeMount.subPath": _STAGED,
    "PodSecurityContext.runAsNonRoot": _NO_PRIVILEGES,
    "SecurityContext.runAsNonRoot": _NO_PRIVILEGES,
    "SecurityContext.readOnlyRootFilesystem": f"{_INSIDE}::test_writes_outside_volumes",
    "Capabilities.drop": _NO_PRIVILEGES,
    "NodeAffinity.requiredDuringSchedulingIgnoredDuringExecution": (
        "site/test_nodelabels.py::test_a_term_that_no_node_matches_keeps_the_job"
    ),
    "Volume.name": _SHARED,
    "Volume.configMap": f"{_FILES}::test_volumes",
    "Volume.csi": _DEMANDS,
    "Volume.downwardAPI": f"{_FILES}::test_a_downward_volume",
    "Volume.emptyDir": _SHARED,
    "Volume.ephemeral": "script/test_mounts.py::test_an_ephemeral_volume_is_empty_and_the_pods_own",
    "Volume.hostPath": "script/test_mounts.py::test_what_lies_within_is_mounted_also_by_a_link",
    "Volume.image": "script/test_mounts.py::test_the_files_of_an_image_volume_are_there_and_stay",
    "Volume.nfs": "script/test_mounts.py::test_what_lies_within_is_mounted_also_by_a_link",
    "Volume.persistentVolumeClaim": "script/test_mounts.py::test_a_claim_is_mounted_by_its_class_or_volume",
    "Volume.projected": _PROJECTED,
    "Volume.secret": _SECRETS,
    "VolumeProjection.configMap": _PROJECTED,
    "VolumeProjection.downwardAPI": _PROJECTED,
    "VolumeProjection.secret": _SECRETS,
    "VolumeProjection.serviceAccountToken": _TOKEN,
}
"""By type and field."""
