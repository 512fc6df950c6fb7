from __future__ import annotations

import errno

import pytest

from router.host import sentences
from router.host.sentences import HelperPlace

PLACE = HelperPlace("ada", "login1", "/opt/sitehelper", sudo=True)


@pytest.mark.parametrize(
    ("number", "begin"),
    [
        (errno.ENOSPC, "no space is left on that file system; free some"),
        (errno.EDQUOT, "the user's quota is used up; remove files"),
        (errno.EROFS, "that file system is mounted read-only; choose"),
        (errno.EACCES, "the user may not do that there; see"),
        (errno.ENOENT, "its own words"),
    ],
)
def test_what_a_file_system_says(number: int, begin: str) -> None:
    assert sentences.of_errno(number, "its own words").startswith(begin)


# Each row: exit code, stderr, what is said, whether it lasts.
ENDS = [
    (1, "sudo: a password is required\n", "sudo asks for a password; give the agent's account a NOPASSWD rule for /opt/sitehelper", True),
    (1, "sudo: a terminal is required to read the password\n", "sudo asks for a password; give", True),
    (1, "sudo: sorry, you must have a tty to run sudo\n", "sudo wants a terminal; write !requiretty for /opt/sitehelper", True),
    (1, "Sorry, user svc is not allowed to execute '/opt/sitehelper' as ada on login1.\n", "sudo does not permit /opt/sitehelper as ada", True),
    (1, "Sorry, user svc may not run sudo on login1.\n", "sudo permits the agent's account nothing; give it a rule", True),
    (1, "sudo: unknown user ada\n", "there is no user ada; see the accounts of the policy", True),
    (1, "sudo: unknown user: ada\n", "there is no user ada; see the accounts of the policy", True),
    (1, "sudo: /opt/sitehelper: command not found\n", "there is no site helper at /opt/sitehelper; install it there", True),
    (127, "sudo: command not found\n", "there is no sudo; install it, or use another access", True),
    (127, "sh: 1: /opt/sitehelper: not found\n", "there is no site helper at /opt/sitehelper; install it there", True),
    (126, "", "/opt/sitehelper may not be executed; make it root's with mode 0755", True),
    (126, "/opt/sitehelper: /no/python: bad interpreter: No such file\n", "names a Python that is not there; name one", True),
    (1, "This account is currently not available.\n", "ada has no login shell (nologin)", True),
    (3, "the site helper does not serve uid 0: LEAST_UID in it is 1000\n", "the site helper refuses: the site helper does not serve uid 0", True),
    (9, "one\ntwo\n", "the site helper ended (exit 9): two", False),
    (None, "", "the site helper was cut off; it is started again with the next request", False),
    (None, "Connection lost\n", "the site helper was cut off: Connection lost", False),
]  # fmt: skip


@pytest.mark.parametrize(("code", "complaint", "words", "lasting"), ENDS, ids=[row[2][:30] for row in ENDS])
def test_why_a_site_helper_ended(code: int | None, complaint: str, words: str, lasting: bool) -> None:
    error = sentences.ended(PLACE, code, complaint)

    assert str(error).startswith("ada on login1: ")
    assert words in str(error)
    assert "\n" not in str(error)
    assert error.lasting is lasting


@pytest.mark.parametrize(
    ("complaint", "words"),
    [
        ("", ""),
        ("Success!\n", ""),
        ("one\n\ntwo \n", "two"),
        ("x" * 400, "x" * 300),
        (
            "ada@n1: Permission denied (publickey,hostbased).\n",
            (
                "the node refuses its user's login over ssh; ssh to it must work without a password: "
                "ada@n1: Permission denied (publickey,hostbased)."
            ),
        ),
        (
            "No ED25519 host key is known for n1 and you have requested strict checking.\nHost key verification failed.\n",
            (
                "ssh has no host key of the node, or another; the site lists it in ssh_known_hosts: "
                "Host key verification failed."
            ),
        ),
        (
            "ssh: Could not resolve hostname n1: Name or service not known\n",
            "ssh does not know the node's name: ssh: Could not resolve hostname n1: Name or service not known",
        ),
        (
            "ssh: connect to host n1 port 22: Connection refused\n",
            "the node does not answer ssh: ssh: connect to host n1 port 22: Connection refused",
        ),
        (
            "/usr/bin/env: 'pbs_attach': No such file or directory\n",
            "the node lacks a program, or the site's workDir: /usr/bin/env: 'pbs_attach': No such file or directory",
        ),
        (
            "pbs_attach: tm_attach: PBS: job not found\n",
            "the node's MoM does not take the command into the job: pbs_attach: tm_attach: PBS: job not found",
        ),
        (
            "pbs_track: MOM could not find job 12.head\n",
            "the node's MoM does not take the command into the job: pbs_track: MOM could not find job 12.head",
        ),
    ],
)
def test_why_a_command_did_not_come_to_its_node(complaint: str, words: str) -> None:
    assert sentences.on_the_way(complaint) == words
