"""``batchgate route`` as a user calls it: what comes out, on which stream, with which exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import yaml
from click.testing import CliRunner, Result

from router import names
from router.cli import commands

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
BASE = ["--policy", str(EXAMPLES / "policies"), "--user", "ada"]


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(commands, list(arguments), input=stdin)


def job(name: str) -> str:
    return str(next(EXAMPLES.glob(f"{name}-*")) / "job.yaml")


def cron(text: str, namespace: str) -> str:
    inner = yaml.safe_load(text)
    return yaml.safe_dump(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "nightly", "namespace": namespace},
            "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": inner["spec"]}},
        }
    )


def template_of(routed: dict[str, Any]) -> dict[str, Any]:
    spec = routed["spec"]["jobTemplate"]["spec"] if routed["kind"] == "CronJob" else routed["spec"]
    template: dict[str, Any] = spec["template"]
    return template


def test_yaml_is_what_the_webhook_would_leave() -> None:
    result = run("route", "-f", job("02"), *BASE)

    routed = yaml.safe_load(result.stdout)
    assert result.exit_code == 0
    assert template_of(routed)["spec"]["nodeName"] == "batch.demo.batchgate"
    assert names.KEY_SCRIPT in template_of(routed)["metadata"]["annotations"]
    assert names.KEY_SIGNATURE not in template_of(routed)["metadata"]["annotations"]
    assert "no --signing-key" in result.stderr


def test_json_of_one_is_the_object_and_of_several_a_list() -> None:
    one = json.loads(run("route", "-f", job("01"), *BASE, "-o", "json").stdout)
    two = json.loads(run("route", "-f", job("01"), "-f", job("02"), *BASE, "-o", "json").stdout)

    assert one["kind"] == "Job"
    assert (two["kind"], [item["metadata"]["name"] for item in two["items"]]) == ("List", ["small", "large"])


def test_patch_names_the_object_and_its_operations() -> None:
    entries = json.loads(run("route", "-f", job("02"), *BASE, "-o", "patch").stdout)

    assert [entry["object"] for entry in entries] == ["large"]
    assert {"op": "add", "path": "/spec/template/spec/nodeName", "value": "batch.demo.batchgate"} in entries[0]["patch"]


def test_table_has_a_row_for_each_object() -> None:
    result = run("route", "-f", job("01"), "-f", job("02"), "-f", job("08"), *BASE, "-o", "table")

    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0] == ["JOB", "KIND", "TARGET", "QUEUE", "RULE", "REASON"]
    assert [row[:3] for row in rows[1:]] == [
        ["small", "Job", "cloud"],
        ["large", "Job", "hpc"],
        ["too-large", "Job", "deny"],
    ]
    assert result.exit_code == 1


@pytest.mark.parametrize(("version", "kind"), [("v1", "ConfigMap"), ("batch.volcano.sh/v1alpha1", "Job")])
def test_what_is_no_job_passes_through_unchanged(version: str, kind: str) -> None:
    # A Job of another API group is another controller's; the webhook is never asked about it.
    others = f"apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: a\ndata:\n  b: '1'\n"

    result = run("route", "-f", "-", *BASE, stdin=others)

    assert (0, others) == (result.exit_code, result.stdout)


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ("5", "(without a name): metadata: must be an object, and is a number"),
        ("{name: a, namespace: 5}", "5/a: metadata.namespace: must be a string, and is a number"),
    ],
)
def test_metadata_of_another_type_is_named_with_its_place(metadata: str, told: str) -> None:
    """The other Jobs are judged all the same."""
    wrong = f"apiVersion: batch/v1\nkind: Job\nmetadata: {metadata}\n---\n"

    result = run("route", "-f", "-", *BASE, stdin=wrong + Path(job("01")).read_text())

    assert (result.exit_code, result.stderr) == (1, f"Error: standard input:1: {told}\n")
    assert "name: small" in result.stdout


def test_a_list_of_jobs_as_the_api_server_sends_it() -> None:
    one = yaml.safe_load(Path(job("01")).read_text())
    listed = {"kind": f"{one.pop('kind')}List", "apiVersion": one.pop("apiVersion"), "items": [one]}

    result = run("route", "-f", "-", *BASE, stdin=json.dumps(listed))

    assert yaml.safe_load(result.stdout)["kind"] == "Job"


@pytest.mark.parametrize(("version", "kind"), [("batch/v1beta1", "CronJob"), ("batch/v2alpha1", "CronJob")])
def test_a_version_of_its_own_group_that_is_not_served_is_an_error(version: str, kind: str) -> None:
    result = run("route", "-f", "-", *BASE, stdin=f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n")

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{kind} of {version} is not served; write apiVersion: batch/v1" in result.stderr


@pytest.mark.parametrize(
    ("metadata", "name"),
    [("{name: a, namespace: x}", "x/a"), ("{generateName: a-}", "a-*"), ("{namespace: x}", "x/(without a name)")],
)
def test_a_warning_names_its_job(metadata: str, name: str) -> None:
    text = re.sub(r"metadata:\n(  .*\n)+", f"metadata: {metadata}\n", Path(job("02")).read_text(), count=1)

    result = run("route", "-f", "-", *BASE, stdin=text)

    assert {line.split(": ")[1] for line in result.stderr.splitlines()} == {"no --signing-key", name}


def test_the_job_of_a_cronjob_is_routed_in_its_place() -> None:
    result = run("route", "-f", "-", *BASE, stdin=cron(Path(job("02")).read_text(), "research"))

    routed = yaml.safe_load(result.stdout)
    assert routed["kind"] == "CronJob"
    assert routed["spec"]["schedule"] == "0 3 * * *"
    assert template_of(routed)["spec"]["nodeName"] == "batch.demo.batchgate"


def test_the_patch_of_a_cronjob_can_be_applied_to_it() -> None:
    text = cron(Path(job("02")).read_text(), "research")

    entry = json.loads(run("route", "-f", "-", *BASE, "-o", "patch", stdin=text).stdout)[0]

    routed = yaml.safe_load(run("route", "-f", "-", *BASE, stdin=text).stdout)
    assert jsonpatch.apply_patch(yaml.safe_load(text), entry["patch"]) == routed
    assert set(routed["spec"]["jobTemplate"]["metadata"]) == {"labels", "annotations"}


def test_a_list_is_taken_apart() -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(Path(job("01")).read_text())]})

    assert yaml.safe_load(run("route", "-f", "-", *BASE, stdin=text).stdout)["metadata"]["name"] == "small"


def test_a_denied_job_is_left_out_and_named() -> None:
    result = run("route", "-f", job("08"), "-f", job("01"), *BASE)

    assert result.exit_code == 1
    assert yaml.safe_load(result.stdout)["metadata"]["name"] == "small"
    assert "too-large: denied by rule too-large: More than 64 CPUs at once" in result.stderr


def test_routing_what_was_routed_changes_nothing(tmp_path: Path) -> None:
    once = run("route", "-f", job("02"), *BASE).stdout

    assert once == run("route", "-f", "-", *BASE, stdin=once).stdout


def test_the_account_decides_not_the_manifest() -> None:
    result = run("route", "-f", job("02"), "--policy", str(EXAMPLES / "policies"), "--user", "eve", "-o", "table")

    assert result.stdout.splitlines()[1].split()[:3] == ["large", "Job", "cloud"]
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("a: 1\na: 2\n", 2, ("standard input:2", "a")),
        ("a: [\n", 2, ("standard input:",)),
        ("kind: Job\n\tapiVersion: v1\n", 2, ("standard input:2",)),
        ("&a [*a]\n", 2, ("standard input:1",)),
        (
            "a: &a [x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n"
            + "".join(f"{chr(c)}: &{chr(c)} [{','.join(['*' + chr(c - 1)] * 8)}]\n" for c in range(ord("c"), ord("n"))),
            2,
            ("standard input:",),
        ),
        (
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec: {template: {spec: {restartPolicy: Never}}}\n",
            1,
            ("spec.template.spec.containers",),
        ),
        (
            (
                "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec: {template: {spec: {restartPolicy: Never, containers: "
                "[{name: c, image: i, resources: {requests: {cpu: 1x}}}]}}}\n"
            ),
            1,
            ("spec.template.spec.containers[0].resources.requests", "1x"),
        ),
    ],
    ids=["duplicate key", "not closed", "tab", "self reference", "alias bomb", "no containers", "quantity"],
)
def test_bad_manifests(text: str, code: int, words: tuple[str, ...]) -> None:
    result = run("route", "-f", "-", *BASE, stdin=text)

    assert code == result.exit_code, result.stderr
    assert result.stdout.strip() == ""
    for word in words:
        assert word in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere.yaml", "cannot be read: No such file or directory"),
        ("unreadable.yaml", "cannot be read: Too many levels of symbolic links"),
        ("empty", "holds no file that ends in .yaml, .yml, .json; -R also looks in the directories below it"),
        ("list.yaml", "1: is no Kubernetes object: a mapping with apiVersion and kind was expected"),
    ],
)
def test_what_holds_no_manifest_is_named(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "unreadable.yaml").symlink_to("unreadable.yaml")
    (tmp_path / "empty").mkdir()
    (tmp_path / "list.yaml").write_text("- a\n")

    result = run("route", "-f", str(tmp_path / name), *BASE)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"{sentence}\n")
    assert str(tmp_path / name) in result.stderr
