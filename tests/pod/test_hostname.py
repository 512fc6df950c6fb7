"""The host name of a Pod, by the kubelet's rules."""

from __future__ import annotations

from typing import Any

import pytest

from router.errors import JobError
from router.pod.hostname import host_names, text

DOMAIN = "svc.lab.svc.cluster.local"


def pod(name: str = "work-x2x9z", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "lab"}, "spec": spec}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (pod(), ("work-x2x9z", "work-x2x9z")),
        (pod("a.b-x2x9z"), ("a.b-x2x9z", "a.b-x2x9z")),
        # Of an Indexed Job the controller sets it: <job>-<index>.
        (pod(hostname="work-7"), ("work-7", "work-7")),
        (pod("n" * 70), ("n" * 63, "n" * 63)),
        (pod("n" * 60 + "-.-x2x9z"), ("n" * 60, "n" * 60)),
        (pod(hostname="a", subdomain="svc"), ("a", f"a.{DOMAIN}", "a")),
        (pod(subdomain="svc"), ("work-x2x9z", f"work-x2x9z.{DOMAIN}", "work-x2x9z")),
        (pod(hostname="a", subdomain="svc", setHostnameAsFQDN=True), (f"a.{DOMAIN}", f"a.{DOMAIN}", "a")),
        (pod(setHostnameAsFQDN=True), ("work-x2x9z", "work-x2x9z")),
        (pod(hostnameOverride="as.i.say", subdomain="svc"), ("as.i.say", "as.i.say")),
        (pod(hostNetwork=True), ()),
    ],
)
def test_containers_have_the_name_that_a_kubelet_gives_them(given: dict[str, Any], names: tuple[str, ...]) -> None:
    assert host_names(given) == names
    assert text(given) == b"".join(name.encode() + b"\0" for name in names)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            pod("n" * 50, subdomain="svc", setHostnameAsFQDN=True),
            f"spec.setHostnameAsFQDN: makes the host name {'n' * 50}.{DOMAIN}, which has 76 characters; Linux takes 64",
        ),
        (pod(hostname="a b"), "spec.hostname: makes 'a b', which is no host name"),
        (pod(hostname="-x"), "spec.hostname: makes '-x', which is no host name"),
        (
            pod(hostname="a", subdomain="b\n1.2.3.4 c"),
            "spec.subdomain: makes 'a.b\\n1.2.3.4 c.lab.svc.cluster.local', which is no host name",
        ),
        (pod(hostname="a\n1.2.3.4 b"), "spec.hostname: makes 'a\\n1.2.3.4 b', which is no host name"),
    ],
)
def test_a_name_that_the_kernel_does_not_take_is_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(JobError) as caught:
        host_names(given)
    assert str(caught.value) == error
