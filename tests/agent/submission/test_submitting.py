"""From a Pod to its files: judged afresh, staged whole, never twice. The cluster is a dict of its objects by path."""

from __future__ import annotations

import base64
import copy
import errno
import os
from pathlib import Path, PurePath
from typing import Any, cast

import pytest

from router import names
from router.agent.batch.commands import BatchCommands
from router.agent.files.wiping import holds_credentials
from router.agent.metrics import Metrics
from router.agent.submission.attempts import attempt_of
from router.agent.submission.images import Images, ImageWait
from router.agent.submission.secrets import NotAllowed, granting
from router.agent.submission.submitting import (
    Added,
    DirectoryExists,
    SiteStorage,
    SubmissionSite,
    Submitter,
    Withdrawn,
    WrongUser,
)
from router.errors import ApiError, JobError, OtherRelease, SignatureError, TooLarge
from router.host.local import LocalHost
from router.hpc import openpbs
from router.kube.client import Api
from router.pod.files import Staged
from router.pod.view import view
from router.script import complete
from tests.agent.fake_imagepull import DIGEST, FakeImagepull, failed, ready
from tests.agent.test_approval import KEYS, SITE, pod_of, routed_job, sign_again
from tests.gates import checked, sized

POD = "/api/v1/namespaces/default/pods/solve-x7k2p"
IMAGE = "busybox:1.36"
JOB = "/apis/batch/v1/namespaces/default/jobs/solve"
MAP = "/api/v1/namespaces/default/configmaps/settings"


class Cluster:
    """The API server's answers to a GET."""

    def __init__(self, objects: dict[str, Any]) -> None:
        self.objects = objects
        self.asked: list[str] = []

    def find(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        found = self.objects.get(path)
        if isinstance(found, ApiError):
            raise found
        return copy.deepcopy(found)


class World:
    """A cluster with one routed Job, and a submitter for its site."""

    def __init__(self, tmp_path: Path, user: str = "ada", secrets: str = "cloud", **pod: Any) -> None:
        job = routed_job(**pod)
        self.cluster = Cluster({POD: pod_of(job), JOB: job})
        (site,) = checked().sites
        self.imagepull = FakeImagepull(tmp_path / "imagepull").make()
        self.imagepull.answers(**{IMAGE: ready(entrypoint=["/entry"], cmd=["c"], env=["A=image"], workdir="/w")})
        site = site.model_copy(update={"imagepull": str(self.imagepull.program), "secrets": secrets})
        self.root = str(tmp_path / "site")
        self.host = LocalHost(self.root)
        place = SubmissionSite(site, "0a1b2c3d", self.root, user)
        commands = BatchCommands(self.host, openpbs, openpbs.DEFAULT, user, 30, Metrics())
        self.submitter = Submitter(cast("Api", self.cluster), self.host, commands, place, lambda: KEYS)
        self.submitter._images = Images(self.host, site, user, patience=120)
        self.view = view(self.pod)

    @property
    def pod(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.objects[POD]
        return found

    @property
    def job(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.objects[JOB]
        return found

    def prepare(self, *, fresh: bool = True) -> Any:
        return self.submitter.prepare(self.view, fresh=fresh)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_pods_files_and_the_submission_of_its_script(world: World) -> None:
    prepared = world.prepare()

    directory = prepared.directory
    assert str(directory.path) == f"{world.root}/pods/{world.view.job_uid}/noindex/pod-uid"
    script = world.job["spec"]["template"]["metadata"]["annotations"][names.KEY_SCRIPT]
    assert world.host.read(directory.script).decode() == complete(script)
    assert script.splitlines()[-1].startswith("# runtime 1: base apptainer ")
    assert b"*.dat" in world.host.read(directory.path / "results")
    assert world.host.read(directory.path / "hostname") == b"solve-x7k2p\0solve-x7k2p\0"
    assert prepared.submission.name == "solve-x7k2p.0a1b2c3d.pod-uid"
    assert prepared.submission.directory == str(directory.path)
    assert SITE == "hpc1"


def test_an_index_has_the_host_name_that_kubernetes_gives_its_pod(world: World) -> None:
    world.pod["spec"]["hostname"] = "solve-3"

    assert world.host.read(world.prepare().directory.path / "hostname") == b"solve-3\0solve-3\0"


def test_hints_that_have_changed_since_have_no_effect_on_what_is_staged(world: World) -> None:
    """The update was allowed with the words "has no effect any more"."""
    world.job["metadata"].setdefault("annotations", {}).update(
        {names.HINT_WALLTIME: "garbage", names.HINT_RANKS: "0", names.HINT_RESULTS: "/etc/passwd"}
    )

    prepared = world.prepare()

    assert b"*.dat" in world.host.read(prepared.directory.path / "results")


def test_a_directory_that_is_there_is_a_reason_to_look_first_and_is_then_used_as_it_is(world: World) -> None:
    first = world.prepare()
    world.host.put(first.directory.path / "kept", b"as it was")

    with pytest.raises(DirectoryExists):
        world.prepare()

    assert world.prepare(fresh=False).submission == first.submission
    assert world.host.read(first.directory.path / "kept") == b"as it was"


def _without(path: str) -> Any:
    return lambda world: world.cluster.objects.pop(path)


def _metadata(path: str, **fields: Any) -> Any:
    return lambda world: world.cluster.objects[path]["metadata"].update(fields)


@pytest.mark.parametrize(
    "change",
    [
        _without(POD),
        _without(JOB),
        _metadata(POD, uid="another"),
        _metadata(POD, deletionTimestamp="2026-01-01T00:00:00Z"),
        _metadata(JOB, uid="another"),
        _metadata(JOB, deletionTimestamp="2026-01-01T00:00:00Z"),
        lambda world: world.job.update(status={"conditions": [{"type": "Failed", "status": "True"}]}),
    ],
)
def test_what_nobody_wants_any_more_is_not_submitted(world: World, change: Any) -> None:
    """The watch may be behind: what counts is what the API server says now."""
    change(world)

    with pytest.raises(Withdrawn):
        world.prepare()
    assert world.host.names(world.root) == []


def test_a_pod_that_is_altered_is_never_run(world: World) -> None:
    world.pod["metadata"]["annotations"][names.KEY_SCRIPT] += "\nrm -rf ~"

    with pytest.raises(SignatureError):
        world.prepare()
    assert world.host.names(world.root) == []


def test_a_script_from_before_there_were_formats_is_submitted_as_it_is(world: World) -> None:
    """Jobs of the release before wait while both sides are replaced."""
    whole = complete(world.job["spec"]["template"]["metadata"]["annotations"][names.KEY_SCRIPT])
    scripted(world, whole)

    assert world.host.read(world.prepare().directory.script).decode() == whole


def test_a_script_of_a_newer_release_waits_and_nothing_is_written(world: World) -> None:
    script = world.job["spec"]["template"]["metadata"]["annotations"][names.KEY_SCRIPT]
    scripted(world, script.replace("# runtime 1:", "# runtime 2:"))

    with pytest.raises(OtherRelease, match="format 2; this agent completes 1, so it is older than the webhook"):
        world.prepare()
    assert world.host.names(world.root) == []


def scripted(world: World, script: str) -> None:
    """The Job as if the webhook had written this script."""
    for one in (world.job["spec"]["template"], world.pod):
        one["metadata"]["annotations"][names.KEY_SCRIPT] = script
    sign_again(world.job, world.pod)


def test_a_pod_with_more_than_its_template_is_not_run(world: World) -> None:
    world.pod["spec"]["containers"].append({"name": "proxy", "image": "mesh"})

    with pytest.raises(Added, match=r"differs from its Job's template \(container proxy\)"):
        world.prepare()


def test_a_pod_of_no_job_is_not_run(world: World) -> None:
    del world.pod["metadata"]["ownerReferences"]

    with pytest.raises(Added, match="only the Pods of Jobs"):
        world.prepare()


def test_nobody_runs_as_somebody_else(tmp_path: Path) -> None:
    with pytest.raises(WrongUser, match="is HPC user ada, and this agent runs Jobs as ben only"):
        World(tmp_path, user="ben").prepare()


def test_values_of_config_maps_are_staged_and_waited_for(tmp_path: Path) -> None:
    world = World(tmp_path)
    source = {"configMapKeyRef": {"name": "settings", "key": "mode"}}
    for spec in (world.pod["spec"], world.job["spec"]["template"]["spec"]):
        spec["containers"][0]["env"] = [{"name": "MODE", "valueFrom": source}]
    sign_again(world.job, world.pod)

    with pytest.raises(JobError, match="ConfigMap 'settings' does not exist"):
        world.prepare()
    assert world.host.names(world.root) == []

    world.cluster.objects[MAP] = {"data": {"mode": "fast"}}
    prepared = world.prepare()
    assert world.host.read(prepared.directory.env("c")) == b"MODE=fast\0"


class FullHost(LocalHost):
    """A site whose disk is full: nothing can be written below its directory."""

    full = True

    def write_pod(self, directory: PurePath | str, staged: Staged) -> bool:
        """See ``Host``."""
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write_pod(directory, staged)


def test_a_full_disk_is_told_with_its_directory_and_can_be_made_room_on(world: World) -> None:
    host = FullHost(world.root)
    world.submitter._host = host

    with pytest.raises(SiteStorage) as error:
        world.prepare()
    host.full = False

    path = f"{world.root}/pods/{world.view.job_uid}/noindex/pod-uid"
    assert str(error.value) == f"{path} cannot be written on the site: No space left on device; it is tried again"
    assert str(world.prepare().directory.path) == path


def test_a_work_directory_that_is_none_is_told(world: World) -> None:
    Path(world.root).mkdir(mode=0o700)
    (Path(world.root) / "pods").write_text("a file")

    with pytest.raises((SiteStorage, OSError), match="Not a directory"):
        world.prepare()


def test_what_somebody_put_into_the_pod_alone_is_named_and_nothing_is_staged(world: World) -> None:
    """A variable that a script would pass on, a ConfigMap that would be laid out: neither was signed."""
    world.pod["spec"]["containers"][0]["env"] = [{"name": "LD_PRELOAD", "value": "/tmp/x.so"}]
    world.pod["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "settings"}}]

    with pytest.raises(Added, match=r"differs from its Job's template \(env of container c, volume v\)"):
        world.prepare()

    assert world.host.names(world.root) == []


PASSWORD = {"name": "P", "valueFrom": {"secretKeyRef": {"name": "password", "key": "p"}}}
SECRET_PATH = "/api/v1/namespaces/default/secrets/password"
GRANT = (
    "an admin of namespace default allows it with `kubectl -n default create rolebinding batchgate-agent-hpc1-secrets "
    "--clusterrole batchgate-secrets --serviceaccount batchgate-system:batchgate-agent-hpc1`"
)


def _with_secret(tmp_path: Path, secret: Any, *, secrets: str = "stage", **fields: Any) -> World:
    world = World(tmp_path, secrets=secrets)
    for spec in (world.pod["spec"], world.job["spec"]["template"]["spec"]):
        spec["containers"][0] |= fields or {"env": [PASSWORD]}
    sign_again(world.job, world.pod)
    world.cluster.objects[SECRET_PATH] = secret
    return world


def test_secrets_do_not_come_to_a_site_that_does_not_say_so(tmp_path: Path) -> None:
    world = _with_secret(tmp_path, {"data": {"p": "b3BlbiBzZXNhbWU="}}, secrets="pull")

    with pytest.raises(JobError, match="needs Secret password"):
        world.prepare()
    assert not any("/secrets/" in path for path in world.cluster.asked)


def test_a_secret_is_staged_in_one_file_of_its_owner_and_waited_for(tmp_path: Path) -> None:
    world = _with_secret(tmp_path, None)

    with pytest.raises(JobError, match="Secret 'password' does not exist") as missing:
        world.prepare()
    assert attempt_of(missing.value, 0).reason == "CreateContainerConfigError"
    assert world.host.names(world.root) == []

    world.cluster.objects[SECRET_PATH] = {"data": {"q": "eA=="}}
    with pytest.raises(JobError, match="'password' has no key 'p'"):
        world.prepare()

    world.cluster.objects[SECRET_PATH] = {"data": {"p": "b3BlbiBzZXNhbWU="}}
    prepared = world.prepare()
    files = [path for path in Path(prepared.directory.path).rglob("*") if path.is_file()]
    assert [path.name for path in files if b"open sesame" in path.read_bytes()] == ["c"]
    assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o600"}
    assert world.host.read(prepared.directory.env("c")) == b"P=open sesame\0"
    assert holds_credentials(world.host, prepared.directory)
    assert "sesame" not in repr(prepared)


def test_a_secret_that_the_agent_may_not_read_is_waited_for_with_what_grants_it(tmp_path: Path) -> None:
    words = 'secrets "password" is forbidden: User "system:serviceaccount:batchgate-system:batchgate-agent-hpc1" cannot'
    world = _with_secret(tmp_path, ApiError(403, "Forbidden", words, SECRET_PATH))

    with pytest.raises(NotAllowed) as error:
        world.prepare()

    attempt = attempt_of(error.value, 100)
    expected = f"the agent may not read Secret password: {GRANT}"
    assert (attempt.reason, attempt.message, attempt.not_before) == ("CreateContainerConfigError", expected, 130)


@pytest.mark.parametrize(
    ("role", "folder"),
    [
        ("batchgate-pull-secrets", "pull-secrets"),
        ("batchgate-secrets", "secrets"),
        ("batchgate-tokens", "tokens"),
    ],
)
def test_a_role_that_is_bound_but_missing_is_told(role: str, folder: str) -> None:
    words = (
        'User "system:serviceaccount:batchgate-system:batchgate-agent" cannot get resource "secrets": RBAC: '
        f'[clusterrole.rbac.authorization.k8s.io "other" not found, clusterrole.rbac.authorization.k8s.io "{role}" not found]'
    )
    expected = (
        f"it is bound to the ClusterRole {role}, which is missing: an admin of the cluster makes it with "
        f"`kubectl apply -k manifests/{folder}`, or with the chart's value {CHART_VALUES[folder]}"
    )
    assert granting(ApiError(403, "Forbidden", words, SECRET_PATH), "default", role) == expected
    assert (ROOT / "manifests" / folder / "role.yaml").is_file()


CHART_VALUES = {"pull-secrets": "pullSecrets.enabled", "secrets": "secrets.enabled", "tokens": "tokens.enabled"}
ROOT = Path(__file__).parents[3]


def test_a_pod_names_a_bounded_number_of_secrets(tmp_path: Path) -> None:
    every = [{"secretRef": {"name": f"s{number}", "optional": True}} for number in range(51)]
    world = _with_secret(tmp_path, None, envFrom=every)

    with pytest.raises(TooLarge, match="needs 51 Secrets; at most 50"):
        world.prepare()
    assert not any("/secrets/" in path for path in world.cluster.asked)


def test_a_missing_secret_of_a_volume_is_told_as_a_kubelet_tells_it(tmp_path: Path) -> None:
    world = World(tmp_path, secrets="stage")
    for spec in (world.pod["spec"], world.job["spec"]["template"]["spec"]):
        spec["volumes"] = [{"name": "v", "secret": {"secretName": "password"}}]
        spec["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    sign_again(world.job, world.pod)

    with pytest.raises(JobError) as error:
        world.prepare()

    attempt = attempt_of(error.value, 0)
    assert attempt.reason == "ContainerCreating"
    assert attempt.message.startswith('MountVolume.SetUp failed for volume "v" : spec.volumes[v].secret: Secret')


def _shown(world: World, prepared: Any, name: str) -> list[str]:
    content = world.host.read(prepared.directory.path / name / "c")
    return [word.decode() for word in content.split(b"\0")[:-1]]


@pytest.mark.parametrize(
    ("fields", "files"),
    [
        ({}, {"image": ["path=/cache/ab.sif", "workdir=/w"]}),
        (
            {"command": None},
            {"image": ["path=/cache/ab.sif", "workdir=/w", "command=1"], "argv": ["/entry", "c"]},
        ),
        (
            {"command": None, "args": ["-n", "$(N)"], "env": [{"name": "N", "value": "3"}]},
            {"image": ["path=/cache/ab.sif", "workdir=/w", "command=1"], "argv": ["/entry", "-n", "3"]},
        ),
    ],
)
def test_what_an_image_says_is_staged(tmp_path: Path, fields: dict[str, Any], files: dict[str, list[str]]) -> None:
    container = sized("4")["containers"][0] | fields
    world = World(tmp_path, containers=[{key: value for key, value in container.items() if value is not None}])
    prepared = world.prepare()

    assert {name: _shown(world, prepared, name) for name in (*files, "image-env")} == files | {"image-env": ["A=image"]}
    assert prepared.images["c"].answer.image_id == f"docker.io/library/perl@{DIGEST}"


def test_an_image_is_looked_for_before_anything_is_written(world: World) -> None:
    world.imagepull.answers(**{IMAGE: failed()})

    with pytest.raises(ImageWait, match="no such image"):
        world.prepare()
    assert world.host.names(world.root) == []


def test_an_image_without_a_command_for_a_job_without_one(tmp_path: Path) -> None:
    container = sized("4")["containers"][0]
    del container["command"]
    world = World(tmp_path, containers=[container])
    world.imagepull.answers(**{IMAGE: ready()})

    with pytest.raises(ImageWait) as error:
        world.prepare()

    words = f'no command specified: image "{IMAGE}" has neither ENTRYPOINT nor CMD; set command'
    assert (error.value.reason, str(error.value)) == ("CreateContainerError", words)


SECRET = "/api/v1/namespaces/default/secrets/ours"
CREDENTIALS = base64.b64encode(b'{"auths": {"docker.io": {"username": "ada", "password": "correct horse"}}}').decode()


def _with_pull_secret(tmp_path: Path, secret: Any, *, secrets: str = "pull") -> World:
    world = World(tmp_path, secrets=secrets)
    world.pod["spec"]["imagePullSecrets"] = [{"name": "ours"}, {"name": "gone"}]
    world.cluster.objects[SECRET] = secret
    return world


@pytest.mark.parametrize(
    ("secrets", "expected"),
    [("pull", [{"username": "ada", "password": "correct horse"}]), ("cloud", [])],
)
def test_a_pull_secret_is_told_to_imagepull_alone_and_only_where_the_site_says_so(
    tmp_path: Path, secrets: str, expected: list[dict[str, str]]
) -> None:
    ours = {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": CREDENTIALS}}
    world = _with_pull_secret(tmp_path, ours, secrets=secrets)
    prepared = world.prepare()

    assert [one["auths"] for one in world.imagepull.asked] == [expected]
    found = [path.read_bytes() for path in Path(prepared.directory.path).rglob("*") if path.is_file()]
    assert not any(b"correct horse" in content or CREDENTIALS.encode() in content for content in found)


def test_however_many_pull_secrets_a_pod_names_few_are_read_and_each_once(tmp_path: Path) -> None:
    world = _with_pull_secret(
        tmp_path, {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": CREDENTIALS}}
    )
    world.pod["spec"]["imagePullSecrets"] = [{"name": "ours"}] * 300 + [
        {"name": f"more-{number}"} for number in range(50)
    ]

    world.prepare()

    read = [path.rpartition("/")[2] for path in world.cluster.asked if "/secrets/" in path]
    assert read == ["ours", *(f"more-{number}" for number in range(19))]


def test_a_pull_secret_that_the_agent_may_not_read_is_waited_for(tmp_path: Path) -> None:
    world = _with_pull_secret(tmp_path, ApiError(403, "Forbidden", "no", SECRET))

    with pytest.raises(ImageWait) as error:
        world.prepare()

    words = (
        "the agent may not read Secret ours: an admin of namespace default allows it with `kubectl -n default create "
        "rolebinding batchgate-agent-pull-secrets --clusterrole batchgate-pull-secrets --serviceaccount "
        "batchgate-system:batchgate-agent`"
    )
    assert (error.value.reason, str(error.value)) == ("ErrImagePull", words)
    assert world.imagepull.asked == []
