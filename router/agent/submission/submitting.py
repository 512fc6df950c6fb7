"""Submits a Pod as a batch job: reads Pod and Job afresh, writes the files, submits, and notes the id.

Shell. The program may be killed after any step, and each step may be repeated. The directory is written whole or not at
all, and shows that a job may exist: the plan then searches for the job before it submits again. If two jobs are made
after all, the claim in the directory lets only one of them run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from router import names, placement
from router.agent.approval import Approved, additions, approve, as_signed, controller, is_living, needs
from router.agent.batch.commands import BatchCommands
from router.agent.submission import secrets as secretreading
from router.agent.submission import tokens
from router.agent.submission.images import Images, ImageWait, pulls_with_secrets
from router.agent.submission.secrets import NotAllowed
from router.agent.submission.tokens import Given
from router.errors import BatchgateError, JobError
from router.host import Host
from router.hpc import Submission, job_name
from router.hpc.remarks import Submitted
from router.kube.client import Api
from router.pod import accounttoken, hostname, layout, results
from router.pod import files as podfiles
from router.pod import image as ociimage
from router.pod.image import Used, Wait
from router.pod.layout import PodDirectory
from router.pod.view import PodView
from router.pod.view import view as view_of
from router.reconcile.spans import RUN, place_of
from router.script import complete
from router.site.schema import Site
from router.workload import resultpaths, workload_of
from router.workload.model import GpuVendor, Workload

_MOST_PULL_SECRETS: Final = 20
"""Most pull secrets of one Pod. Each may hold a megabyte, and every try reads all of them again."""
_STAGE: Final = "stage"
_RESULTS_FIELD: Final = f"metadata.annotations[{names.HINT_RESULTS}]"
Json = dict[str, Any]
Keys = Mapping[str, Ed25519PublicKey]

FORBIDDEN_SECONDS: Final = 30.0
"""Pause before a right is tried again that the agent lacks."""
_NO_COMMAND_SECONDS: Final = 300.0
"""Pause before an image that lacks a command is looked at again: only a new image would have one."""


class Withdrawn(BatchgateError):
    """The Pod or its Job is gone, deleted or over, so the submission is no longer wanted."""


class WrongUser(BatchgateError):
    """The Pod's account names an HPC user as whom this agent may not act."""


class Added(BatchgateError):
    """The Pod has additions that its Job's template lacks, so the signed script would not run them."""


@dataclass(frozen=True, slots=True)
class SubmissionSite:
    """The place where this agent submits jobs.

    :param root: the cluster's directory on the site
    :param user: the HPC user whom accounts must name
    :param traced: whether this agent sends spans, so that containers are told where theirs belong
    """

    site: Site
    cluster: str
    root: str
    user: str
    gpu_resources: Mapping[str, GpuVendor] = field(default_factory=dict)
    traced: bool = False


class DirectoryExists(BatchgateError):
    """The Pod's directory exists although no submission is known: an earlier agent may have submitted the Pod."""


class SiteStorage(BatchgateError):
    """The site's work directory cannot be written now: full, a quota, read-only, away."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A Pod whose files are written.

    :param warnings: sentences for Events
    :param images: the images of its containers, by the container's name
    """

    submission: Submission
    directory: PodDirectory
    warnings: tuple[str, ...] = ()
    images: Mapping[str, Used] = field(default_factory=dict)


class Submitter:
    """Submits the Pods of one site.

    :param keys: the public keys in force, asked for at each submission
    :param elsewhere: takes the uid of a Pod that belongs to another HPC user, and that user; returns the error to raise
    """

    def __init__(
        self,
        api: Api,
        host: Host,
        commands: BatchCommands,
        place: SubmissionSite,
        keys: Callable[[], Keys],
        elsewhere: Callable[[str, str], BatchgateError] | None = None,
    ) -> None:
        self._api = api
        self._host = host
        self._commands = commands
        self._place = place
        self._keys = keys
        self._elsewhere = elsewhere or self._wrong_user
        self._images = Images(host, place.site, place.user)
        self.renewals: dict[str, float] = {}
        """When tokens that were staged lately are to be renewed, by the Pod's uid; ``Renewing`` takes them out."""

    def directory(self, view: PodView) -> PodDirectory:
        """The Pod's files on the site."""
        return PodDirectory(self._place.root, view.job_uid, view.index, view.uid)

    def tag(self, name: str, uid: str) -> str:
        """The name of a Pod's job."""
        return job_name(name, self._place.cluster, uid, self._commands.name_limit)

    def prepare(self, view: PodView, *, fresh: bool) -> Prepared:
        """Judge a Pod and write its files, unless they exist. The job is submitted later.

        :param fresh: no submission is known to have been tried
        :raises Withdrawn: the Pod or its Job is gone or over
        :raises SignatureError: the Pod's signature is missing or differs
        :raises WrongUser, Added: this agent can never run the Pod as it is
        :raises JobError: an object that its files need is missing
        :raises NotAllowed: the agent may not read a Secret
        :raises OtherRelease: this agent cannot complete its script
        :raises TooLarge: its files are larger than allowed
        :raises DirectoryExists: the directory exists; only if ``fresh``
        :raises ImageWait: an image is still missing
        :raises SiteStorage: its files cannot be written now
        :raises ApiError: the API server does not answer
        """
        pod, job = self._fresh(view)
        approved = approve(pod, job, self._place.site.name, self._keys())
        self._demand_runnable(pod, job, approved)
        pod = self._signed(pod, job)
        directory = self.directory(view)
        submission = Submission(
            name=self.tag(view.name, view.uid),
            script=str(directory.script),
            directory=str(directory.path),
            output=str(directory.output),
        )
        if self._host.status(directory.path) is None:
            script = complete(approved.script)
            images = self._images.of(pod, view.created, self._pull_secrets(pod))
            staged = self._staged(pod, job, approved, images).add(layout.SCRIPT, script.encode())
            if self._write(directory, staged):
                return Prepared(submission, directory, staged.warnings, images)
        if fresh:
            raise DirectoryExists(f"{directory.path} is there already")
        return Prepared(submission, directory)

    def tokens(self, view: PodView) -> Given:
        """New tokens of a Pod whose files are written. Raises like ``prepare``."""
        pod, job = self._fresh(view)
        approve(pod, job, self._place.site.name, self._keys())
        return tokens.request(self._api, pod, accounttoken.wanted(self._signed(pod, job)))

    def _signed(self, pod: Json, job: Json) -> Json:
        """The Pod as it is signed, with the automatic mount of a token if Kubernetes has given it one."""
        signed = as_signed(pod, job)
        mounted = self._place.site.tokens == _STAGE and accounttoken.is_mounted(pod)
        return accounttoken.with_automatic(signed) if mounted else signed

    def _write(self, directory: PodDirectory, staged: podfiles.Staged) -> bool:
        try:
            return self._host.write_pod(directory.path, staged)
        except OSError as error:
            words = f"{directory.path} cannot be written on the site: {error.strerror or error}; it is tried again"
            raise SiteStorage(words) from error

    def submit(self, prepared: Prepared) -> Submitted:
        """Run the submit command and note the new job's id in the directory; returns the new job.

        :raises BatchError: after Refused and Full there is no job; Unavailable and OutputError leave that open
        """
        found = self._commands.submit(prepared.submission)
        self.note(prepared.directory, found.job_id)
        return found

    def note(self, directory: PodDirectory, job_id: str) -> None:
        """Write a job's id into the Pod's directory."""
        self._host.put(directory.job_id, f"{job_id}\n".encode())

    def _fresh(self, view: PodView) -> tuple[Json, Json]:
        """Pod and Job, read from the API server now, as the watch may lag."""
        pod = self._api.find(f"/api/v1/namespaces/{view.namespace}/pods/{view.name}")
        if pod is None or pod["metadata"]["uid"] != view.uid or pod["metadata"].get("deletionTimestamp"):
            raise Withdrawn(f"Pod {view.key} is gone or being deleted")
        owner = controller(pod)
        if owner is None:
            raise Added("is no Pod of a Job: only the Pods of Jobs are run")
        name, uid = owner
        job = self._api.find(f"/apis/batch/v1/namespaces/{view.namespace}/jobs/{name}")
        if job is None or job["metadata"]["uid"] != uid or not is_living(job):
            raise Withdrawn(f"Job {view.namespace}/{name} of Pod {view.name} is gone or over")
        return pod, job

    def _demand_runnable(self, pod: Json, job: Json, approved: Approved) -> None:
        if approved.user != self._place.user:
            raise self._elsewhere(pod["metadata"]["uid"], approved.user)
        if self._place.site.tokens != _STAGE and accounttoken.is_mounted(pod):
            raise JobError("spec", "mounts a token of its service account, and tokens are not brought to this site")
        if extra := additions(accounttoken.without(pod), job):
            raise Added(
                f"differs from its Job's template ({', '.join(extra)}), so that the signed script would not run what "
                "the Pod says; exempt the namespace, or these Pods, from the webhook that does this"
            )
        if self._place.site.secrets != _STAGE and (secrets := needs(as_signed(pod, job)).secrets):
            raise JobError("spec", f"needs Secret {', '.join(secrets)}, and Secrets are not brought to this site")

    def _wrong_user(self, _: str, user: str) -> WrongUser:
        own = self._place.user
        return WrongUser(f"the account of this Job is HPC user {user}, and this agent runs Jobs as {own} only")

    def _staged(self, pod: Json, job: Json, approved: Approved, images: Mapping[str, Used]) -> podfiles.Staged:
        namespace = pod["metadata"]["namespace"]
        found = {
            name: self._api.find(f"/api/v1/namespaces/{namespace}/configmaps/{name}") for name in needs(pod).config_maps
        }
        workload = self._workload(job, namespace)
        _demand_commands(workload, images)
        secrets = secretreading.read(self._api, namespace, needs(pod).secrets)
        given = self._given(pod)
        staged = podfiles.stage(
            pod,
            workload,
            config_maps={name: one for name, one in found.items() if one is not None},
            secrets=secrets,
            tokens=given,
            services=tokens.service_variables(self._place.site.api_server) if given else {},
            allocatable=self._allocatable(pod),
            images=images,
            traceparent=self._traceparent(pod),
        )
        plan = results.plan_text(resultpaths.resolve(workload, approved.results, _RESULTS_FIELD))
        staged = staged.add(layout.RESULTS, plan).add(layout.HOSTNAME, hostname.text(pod))
        return staged.add(layout.CREDENTIALS, b"") if secrets or given else staged

    def _traceparent(self, pod: Json) -> str:
        """The place of the Pod's run in its Job's trace; empty without one."""
        found = place_of(view_of(pod), RUN) if self._place.traced else None
        return "" if found is None else str(found)

    def _given(self, pod: Json) -> Mapping[str, str]:
        """The tokens of a Pod, where the site brings them."""
        wanted = accounttoken.wanted(pod) if self._place.site.tokens == _STAGE else ()
        given = tokens.request(self._api, pod, wanted)
        if (renewal := given.renewal(time.time())) is not None:
            self.renewals[pod["metadata"]["uid"]] = renewal
        return given.tokens

    def _pull_secrets(self, pod: Json) -> tuple[Json, ...]:
        """The Secrets that a Pod names for its images. Missing ones are skipped, as by a kubelet. Raises ImageWait."""
        if not pulls_with_secrets(self._place.site, pod):
            return ()
        namespace = pod["metadata"]["namespace"]
        named = dict.fromkeys(one["name"] for one in pod["spec"].get("imagePullSecrets") or () if one.get("name"))
        wanted = tuple(named)[:_MOST_PULL_SECRETS]  # the API server accepts any number, duplicates included
        found = [self._pull_secret(namespace, name, pod) for name in wanted]
        return tuple(one for one in found if one is not None)

    def _pull_secret(self, namespace: str, name: str, pod: Json) -> Json | None:
        staged = self._place.site.secrets == _STAGE
        try:
            return secretreading.find(
                self._api, namespace, name, names.SECRETS_ROLE if staged else names.PULL_SECRETS_ROLE
            )
        except NotAllowed as error:
            wait = Wait(names.REASON_ERR_IMAGE_PULL, str(error), time.time() + FORBIDDEN_SECONDS)
        raise ImageWait(str(pod["spec"]["containers"][0]["image"]), wait)

    def _workload(self, job: Json, namespace: str) -> Workload:
        """The Job's workload as the webhook sized it: the containers that the script runs.

        Hints are left out, as they may have changed since; only the signed results count here.
        """
        own = placement.strip(_without_hints(job)).job
        return workload_of(own, namespace=namespace, gpu_resources=self._place.gpu_resources)

    def _allocatable(self, pod: Json) -> dict[str, str]:
        """The values of limits that are not set: all of the node, as with the kubelet."""
        node = pod["spec"].get("nodeName")
        for queue in self._place.site.queues:
            if names.node_name(self._place.site.name, queue.name) == node:
                memory = {"memory": str(queue.memory_per_node)} if queue.memory_per_node else {}
                return {"cpu": str(queue.cpus_per_node), **memory}
        return {}


def _without_hints(job: Json) -> Json:
    annotations = job["metadata"].get("annotations") or {}
    kept = {key: value for key, value in annotations.items() if key not in names.HINTS}
    return {**job, "metadata": {**job["metadata"], "annotations": kept}}


def _demand_commands(workload: Workload, images: Mapping[str, Used]) -> None:
    """Raise ImageWait if both the Job and the image lack a command to run."""
    for container in workload.containers:
        used = images.get(container.name)
        if used is None or used.answer.config is None or container.command or container.launcher is not None:
            continue
        if not ociimage.words(used.answer.config, None, container.args):
            words = f'no command specified: image "{container.image}" has neither ENTRYPOINT nor CMD; set command'
            wait = Wait(names.REASON_CREATE_CONTAINER, words, time.time() + _NO_COMMAND_SECONDS)
            raise ImageWait(container.image, wait)
