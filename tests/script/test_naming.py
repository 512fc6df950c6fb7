"""What a Pod adds to /etc/hosts and to its resolver, as its containers see it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from router.errors import JobError
from router.site.schema import Site
from router.site.support import unsupported
from tests.script.builders import IMAGE, container, site, text_of, workload
from tests.script.running import Pod

READS = 'while read -r line; do echo "$$line"; done <'
ALIASES = [{"ip": "192.0.2.7", "hostnames": ["db", "db.lab"]}, {"ip": "2001:db8::1", "hostnames": ["six"]}]
ALIAS_LINES = ["", "# Entries added by HostAliases.", "192.0.2.7\tdb\tdb.lab", "2001:db8::1\tsix"]

apptainer = [
    pytest.mark.apptainer,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine"),
]


def on(image: Path, **fields: Any) -> Site:
    return site(images=[{"match": IMAGE, "path": str(image)}], **fields)


def read(file: str, **fields: Any) -> dict[str, Any]:
    return container("/bin/sh", "-c", f"{READS}{file}", **fields)


class TestInContainers:
    pytestmark = apptainer

    @pytest.mark.parametrize("names", [b"", b"pod-1\0pod-1\0"])
    def test_host_aliases_follow_the_other_lines(self, pod: Pod, image: Path, names: bytes) -> None:
        (pod.path / "hostname").write_bytes(names)

        assert pod.run(text_of(workload(read("/etc/hosts"), hostAliases=ALIASES), on(image))) == 0

        mine = Path("/etc/hosts").read_text().splitlines()
        said = pod.log().split("\n")[:-1]
        assert said[: len(mine)] == mine
        assert [one.partition(" ")[2] for one in said[len(mine) : -len(ALIAS_LINES)]] == ["pod-1"] * bool(names)
        assert said[-len(ALIAS_LINES) :] == ["", "# Entries added by HostAliases.", "192.0.2.7 db db.lab".replace(" ", "\t"), "2001:db8::1\tsix"]  # fmt: skip

    def test_a_volume_at_etc_hosts_is_the_jobs(self, pod: Pod, image: Path, tmp_path: Path) -> None:
        (tmp_path / "hosts").write_text("192.0.2.1 own\n")
        volumes = [{"name": "v", "hostPath": {"path": str(tmp_path)}}]
        mounts = [{"name": "v", "mountPath": "/etc/hosts", "subPath": "hosts"}]
        where = on(image, volumes=[{"hostPath": str(tmp_path), "path": str(tmp_path)}])
        job = workload(read("/etc/hosts", volumeMounts=mounts), volumes=volumes, hostAliases=ALIASES)

        assert pod.run(text_of(job, where)) == 0
        assert pod.log() == "192.0.2.1 own\n"

    def test_with_the_policy_none_only_the_pods_own_settings_count(self, pod: Pod, image: Path) -> None:
        config = {
            "nameservers": ["192.0.2.53", "2001:db8::53"],
            "searches": ["lab.example", "example"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
        }

        assert pod.run(text_of(workload(read("/etc/resolv.conf"), dnsPolicy="None", dnsConfig=config), on(image))) == 0

        assert pod.log().splitlines() == [
            "nameserver 192.0.2.53",
            "nameserver 2001:db8::53",
            "search lab.example example",
            "options ndots:2 edns0",
        ]

    def test_else_they_are_added_to_the_nodes(self, pod: Pod, image: Path) -> None:
        config = {"searches": ["lab.example"], "options": [{"name": "timeout", "value": "9"}]}
        text = text_of(workload(read("/etc/resolv.conf"), dnsConfig=config), on(image))
        node = pod.work / "resolv.conf"
        node.write_text(
            "# made\ndomain old\nsearch hpc.example lab.example\nnameserver 192.0.2.1\noptions timeout:1 rotate\n"
            "nameserver 192.0.2.2"
        )

        assert pod.run(text.replace("</etc/resolv.conf\n", f"<{node}\n")) == 0

        assert pod.log().splitlines() == [
            "nameserver 192.0.2.1",
            "nameserver 192.0.2.2",
            "search hpc.example lab.example",
            "options rotate timeout:9",
        ]


def test_a_job_without_them_has_the_script_that_it_had() -> None:
    text = text_of(workload(container("true"), dnsPolicy="Default"), site())

    assert not any(word in text for word in ("host_aliases", "resolving"))


def test_without_a_container_there_is_no_file_of_its_own() -> None:
    where = site(system="local", runtime="host")
    jobs = [
        workload(container("true"), hostAliases=ALIASES),
        workload(container("true"), dnsConfig={"searches": ["a"]}),
    ]

    found = [[str(one) for one in unsupported(job, where, None)] for job in jobs]

    why = "needs a container, and site hpc1 runs commands without one (runtime host)"
    assert found == [[f"spec.template.spec.hostAliases: {why}"], [f"spec.template.spec.dnsConfig: {why}"]]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"hostAliases": [{"ip": "x\n1", "hostnames": ["a"]}]}, "hostAliases[0].ip"),
        ({"hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a\n192.0.2.2 b"]}]}, "hostAliases[0].hostnames[0]"),
        ({"dnsPolicy": "None"}, "dnsConfig.nameservers"),
        ({"dnsConfig": {"nameservers": ["192.0.2.1"] * 4}}, "dnsConfig.nameservers"),
        ({"dnsConfig": {"nameservers": ["a b"]}}, "dnsConfig.nameservers[0]"),
        ({"dnsConfig": {"searches": ["a b"]}}, "dnsConfig.searches[0]"),
        ({"dnsConfig": {"options": [{"name": "a b"}]}}, "dnsConfig.options[0].name"),
        ({"dnsConfig": {"options": [{"name": "a", "value": "\n"}]}}, "dnsConfig.options[0].value"),
    ],
)
def test_what_would_be_another_line_is_refused(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(JobError) as caught:
        workload(container("true"), **spec)

    assert caught.value.path == f"spec.template.spec.{field}"
