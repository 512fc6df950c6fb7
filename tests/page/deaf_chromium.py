#!/usr/bin/env python3
"""Chromium, to which the system tells nothing of network interfaces.

It gives up all connections when an interface comes or goes, and other tests make some for their nodes. What is told
comes by netlink sockets, so a filter of system calls (libseccomp) refuses those.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys

_ALLOW, _REFUSE, _EQUAL = 0x7FFF0000, 0x00050000, 4  # seccomp.h: SCMP_ACT_ALLOW, SCMP_ACT_ERRNO, SCMP_CMP_EQ


class _Argument(ctypes.Structure):
    """``struct scmp_arg_cmp``."""

    _fields_ = (
        ("number", ctypes.c_uint),
        ("compared", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def refuse_netlink() -> None:
    """For this process and those that it starts. Raises OSError if there is no libseccomp, or it does not do so."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    refused = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ALLOW)))
    action = ctypes.c_uint32(_REFUSE | errno.EAFNOSUPPORT)
    family = _Argument(0, _EQUAL, socket.AF_NETLINK, 0)
    call = library.seccomp_syscall_resolve_name(b"socket")
    failed = library.seccomp_rule_add_array(refused, action, call, 1, ctypes.byref(family))
    failed = failed or library.seccomp_load(refused)
    if failed:
        raise OSError(-failed, "a filter of system calls is not taken")


if __name__ == "__main__":
    refuse_netlink()
    os.execvp("chromium", ["chromium", *sys.argv[1:]])
