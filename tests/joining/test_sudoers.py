"""The rule for sudo."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from router.errors import ConfigError
from router.joining import sudoers

HELPER = "/usr/local/libexec/batchgate/sitehelper"
HEAD = (
    "# Written by `batchgate site install hpc`: its agent may start the site helper as these users. The two quotes\n"
    "# forbid arguments.\n"
    f"Defaults!{HELPER} !requiretty, env_reset\n"
)


@pytest.mark.parametrize(
    ("users", "group", "line"),
    [
        (("grace", "ada"), "", f'batchgate ALL=(ada,grace) NOPASSWD: {HELPER} ""\n'),
        (("ada",), "hpc-users", f'batchgate ALL=(%hpc-users) NOPASSWD: {HELPER} ""\n'),
        ((), "domain users", f'batchgate ALL=(%domain\\ users) NOPASSWD: {HELPER} ""\n'),
        (("ALL, root",), "", f'batchgate ALL=(ALL\\,\\ root) NOPASSWD: {HELPER} ""\n'),
    ],
)
def test_the_rule(users: tuple[str, ...], group: str, line: str) -> None:
    text = sudoers.text("hpc", "batchgate", HELPER, users, group)

    assert text == HEAD + line
    visudo = shutil.which("visudo", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if visudo is not None:
        done = subprocess.run([visudo, "-c", "-f", "-"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_nobody_to_allow() -> None:
    with pytest.raises(ConfigError) as caught:
        sudoers.text("hpc", "batchgate", HELPER, ())
    assert str(caught.value) == (
        "site hpc: the policy's accounts name no HPC user for it, so sudo has nobody to allow; name them there, or the group "
        "of all HPC users with --group"
    )
