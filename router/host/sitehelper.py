#!/usr/bin/python3 -I
"""The site helper: all that a Batchgate agent may do on this machine as one of its users.

One file for an admin to read and to install: Python 3.6 and its standard library. It answers requests on stdin with
answers on stdout until stdin ends. A message is two lengths (4 bytes each, big-endian), a JSON object and raw bytes.
Files: only below one directory of the user, without following links below it. Commands: only those of the batch
system and the image puller, by name, with a time limit and without a shell. It never serves root or a system account.
"""

# Names are bytes here, and most are relative to a descriptor, so pathlib does not fit.
# ruff: noqa: S606, PTH101, PTH103, PTH113, PTH116, PTH118, PTH119, PTH208

import contextlib
import errno
import itertools
import json
import os
import pwd
import re
import selectors
import shlex
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

# What an admin may set for a site.
LEAST_UID = 1000  # users with a lower uid are refused
ROOTS = ()  # where users' directories may lie, e.g. ("/scratch/{user}/batchgate",); empty: anywhere
ENTERING = ("srun", "ssh")  # what kubectl exec may start within a user's running job; empty: nothing
FURTHER_PROGRAMS = ()  # commands beside PROGRAMS: names, or full paths, which may have any owner
CONF_SERVERS = ()  # what SLURM_CONF_SERVER may be, e.g. ("slurmctl:6817",): commands load what it gives them

VERSION, OLDEST = 1, 1  # of this protocol, and the oldest whose agents are served
MAGIC = b"\0batchgate-sitehelper\0"  # first on stdout: the agent skips what a login shell prints before it
LENGTHS = struct.Struct(">II")
MOST_HEAD, MOST_BODY, MOST_OUTPUT = 4 << 20, 64 << 20, 16 << 20  # bytes
MOST_NAMES, MOST_LISTED = 100000, 8 << 20  # names of one directory, and their bytes
PBS = ("qsub", "qstat", "qselect", "qdel", "qsig", "pbsnodes")
SLURM = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo")  # of scontrol only show, which is read-only
IMAGES = "imagepull"  # the image puller; it must be root's
PROGRAMS = frozenset([*PBS, *SLURM, IMAGES])
JOB = re.compile(r"--jobid=[1-9][0-9]*")  # of a step within a running job
# All that follows it: srun has options that start programs, and write files, where it is called.
PLACE = ["--overlap", "--nodes=1", "--ntasks=1", "--relative=0", "--mem=0", "--chdir=/"]
PLACE += ["--unbuffered", "--export=NONE", "--mpi=none", "--cpu-bind=none", "/usr/bin/python3", "-I"]
SRUN_VARIABLES = frozenset(["PATH", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_TIME_FORMAT"])  # others are options too
ENTERS = frozenset(["srun", "ssh"])  # never run in another form, whatever FURTHER_PROGRAMS says
SSH = [
    "-T",
    "-x",
    "-a",
    "-oBatchMode=yes",
    "-oStrictHostKeyChecking=yes",
    "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no",
]
SSH += ["-oControlMaster=no", "-oControlPath=none", "-oConnectTimeout=20"]
SSH += ["-oServerAliveInterval=20", "-oServerAliveCountMax=3", "-oLogLevel=ERROR"]  # all options, in this order
NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# What ssh starts on the node, without a sign that a shell would read: the batch system's program takes the user's own
# file into a running job.
TAKEN = re.compile(
    r"/usr/bin/env ((?:(?:PATH|PBS_CONF_FILE|PBS_SERVER|PBS_DEFAULT)=[\w@%+=:,./-]* )*)"
    r"(?:pbs_attach -j \d[\w.-]*|pbs_track -j \d[\w.-]* --) /usr/bin/python3 -I ",
    re.ASCII,
)
VARIABLES = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_[A-Z]+|TZ|BATCHGATE_\w+"
    r"|PBS_(CONF_FILE|SERVER|DEFAULT)|SLURM_(CONF|CONF_SERVER|TIME_FORMAT)"
)
CONF_FILES = ("SLURM_CONF", "PBS_CONF_FILE")  # they say from where a command loads plugins
PATH = "/usr/local/bin:/usr/bin:/bin"
AFTER_KILL = 2.0  # seconds to wait for a killed command's pipes
THREADS = 16
BLOCK = 1 << 16

STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY_MODE, FILE_MODE = 0o700, 0o600
LISTED = 0o500  # without these permissions of its owner, a directory cannot be read
CLOCK = b".clock"


class Barred(NotADirectoryError):
    """A step is a link or a file where a directory belongs, or its owner's own mode keeps its owner out."""


class Session:
    """One run of the helper: the user's directory, its start, and the process ids of running commands."""

    def __init__(self, root: "bytes") -> None:
        self.root = root
        self.begun = time.monotonic()
        self.running = set()  # type: set[int]


@contextlib.contextmanager
def walked(at: "int", steps: "list[bytes]", *, make: "bool" = False) -> "Iterator[int]":
    """A descriptor of the directory at the end of the steps; links are refused. It closes the descriptor ``at``."""
    try:
        for number, step in enumerate(steps):
            with barred(at, step, is_root=number == 0):
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(step, DIRECTORY_MODE, dir_fd=at)
                following = os.open(step, STEP, dir_fd=at)
            os.close(at)
            at = following
        yield at
    finally:
        os.close(at)


@contextlib.contextmanager
def barred(at: "int", name: "bytes", *, is_root: "bool") -> "Iterator[None]":
    """Raise Barred in place of the system's error if the user's own programs have caused it."""
    try:
        yield
    except NotADirectoryError as error:
        raise Barred(errno.ENOTDIR, error.strerror) from error
    except PermissionError as error:
        if error.errno == errno.EACCES and (
            (not is_root and is_locked(os.fstat(at), DIRECTORY_MODE)) or shut(at, name)
        ):
            raise Barred(errno.ENOTDIR, "its owner's mode keeps its owner out") from error
        raise


def is_locked(seen: "os.stat_result", wanted: "int") -> "bool":
    """Whether the mode of this user's own file denies the user one of these permissions."""
    return seen.st_uid == os.getuid() and seen.st_mode & wanted != wanted


def shut(at: "int", name: "bytes") -> "bool":
    """Whether the mode of what has this name keeps its owner from reading it."""
    try:
        seen = os.stat(name, dir_fd=at, follow_symlinks=False)
    except OSError:
        return False
    return is_locked(seen, LISTED if stat.S_ISDIR(seen.st_mode) else stat.S_IRUSR)


def opened(session: "Session", steps: "list[bytes]", *, make: "bool" = False) -> "AbstractContextManager[int]":
    """The same, from the user's directory. Raises FileNotFoundError if it is missing, unless ``make``."""
    if make:
        os.makedirs(session.root, DIRECTORY_MODE, exist_ok=True)
    return walked(os.open(session.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), steps, make=make)


@contextlib.contextmanager
def parent(session: "Session", path: "str", *, make: "bool" = False) -> "Iterator[tuple[int, bytes]]":
    """The directory that holds a path, and the path's name in it."""
    steps = steps_of(session.root, path)
    if not steps:
        raise ValueError(f"{path!r} is the directory itself")
    with opened(session, steps[:-1], make=make) as found, barred(found, steps[-1], is_root=not steps[:-1]):
        yield found, steps[-1]


def parts_of(path: "bytes") -> "list[bytes]":
    """The names in a path."""
    return [part for part in path.split(b"/") if part not in (b"", b".")]


def steps_of(root: "bytes", path: "str") -> "list[bytes]":
    """The steps from the root to a path. Raises ValueError if the path is not below the root."""
    raw = raw_of(path)
    parts, above = parts_of(raw), parts_of(root)
    if not raw.startswith(b"/") or b"\0" in raw or b".." in parts or parts[: len(above)] != above:
        raise ValueError(f"{path!r} does not lie below {root.decode('utf-8', 'replace')!r}")
    return parts[len(above) :]


def raw_of(text: "str") -> "bytes":
    """A name as the file system has it, in any locale."""
    return text.encode("utf-8", "surrogateescape")


def hidden(name: "bytes") -> "bytes":
    """A unique hidden name."""
    return b"." + name + b"." + os.urandom(8).hex().encode()


def write_file(at: "int", name: "bytes", content: "bytes", mode: "int" = FILE_MODE) -> "None":
    """Write a new file."""
    with os.fdopen(os.open(name, NEW, FILE_MODE, dir_fd=at), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)


def exists(name: "bytes", at: "int") -> "bool":
    """Whether this name exists."""
    with contextlib.suppress(FileNotFoundError):
        os.stat(name, dir_fd=at, follow_symlinks=False)
        return True
    return False


# Operations take the session, the request's fields and its bytes; they return a value for JSON, and bytes.


def do_names(session: "Session", asked: "dict[str, Any]", _body: "bytes") -> "tuple[object, bytes]":
    """The names in a directory, separated by NUL."""
    steps = steps_of(session.root, asked["path"])
    with contextlib.suppress(FileNotFoundError, Barred), opened(session, steps) as found:
        # The directory is read by its descriptor's path: scandir takes a descriptor only since Python 3.7.
        with os.scandir(f"/proc/self/fd/{found}") as entries:
            listed = list(itertools.islice((os.fsencode(entry.name) for entry in entries), MOST_NAMES + 1))
        if len(listed) > MOST_NAMES or sum(map(len, listed)) + len(listed) > MOST_LISTED:
            raise OSError(
                errno.EFBIG, f"holds more than {MOST_NAMES} names or {MOST_LISTED} bytes of them; remove some"
            )
        return None, b"\0".join(listed)
    return None, b""


def do_status(session: "Session", asked: "dict[str, Any]", _body: "bytes") -> "tuple[object, bytes]":
    """Kind, size and time of change (seconds since 1970) of a path; null if it is missing."""
    with contextlib.suppress(FileNotFoundError, Barred), parent(session, asked["path"]) as (found, name):
        seen = os.stat(name, dir_fd=found, follow_symlinks=False)
        kind = "file" if stat.S_ISREG(seen.st_mode) else "other"
        if stat.S_ISDIR(seen.st_mode) and not is_locked(seen, LISTED):
            kind = "directory"
        return [kind, seen.st_size, seen.st_mtime], b""
    return None, b""


def do_read(session: "Session", asked: "dict[str, Any]", _body: "bytes") -> "tuple[object, bytes]":
    """Bytes of an ordinary file."""
    with parent(session, asked["path"]) as (found, name):
        file = os.open(name, READ, dir_fd=found)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)  # fdopen refuses a directory, and leaves it open
        raise OSError(0, "is no ordinary file")
    with os.fdopen(file, "rb") as source:
        source.seek(asked["offset"])
        return None, source.read(min(asked["limit"], MOST_BODY))


def do_put(session: "Session", asked: "dict[str, Any]", body: "bytes") -> "tuple[object, bytes]":
    """Write a file, whole or not at all."""
    with parent(session, asked["path"], make=True) as (found, name):
        half = hidden(name)
        try:
            write_file(found, half, body)
            os.rename(half, name, src_dir_fd=found, dst_dir_fd=found)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(half, dir_fd=found)
            raise
    return None, b""


def do_make_directory(session: "Session", asked: "dict[str, Any]", _body: "bytes") -> "tuple[object, bytes]":
    """Make a directory and those above it."""
    with opened(session, steps_of(session.root, asked["path"]), make=True):
        return None, b""


def do_write_pod(session: "Session", asked: "dict[str, Any]", body: "bytes") -> "tuple[object, bytes]":
    """Make a directory with all its files, whole or not at all; false if it exists already."""
    with parent(session, asked["path"], make=True) as (found, name):
        if exists(name, found):
            return False, b""
        half = hidden(name)
        os.mkdir(half, DIRECTORY_MODE, dir_fd=found)
        try:
            fill(found, half, asked, body)
            os.rename(half, name, src_dir_fd=found, dst_dir_fd=found)
        except OSError:
            if exists(name, found):  # another submission was faster: a rename onto a directory with files fails
                return False, b""
            raise
        finally:
            if exists(half, found):
                remove_tree(found, half)
    return True, b""


def fill(at: "int", half: "bytes", asked: "dict[str, Any]", body: "bytes") -> "None":
    """Write the directories and the files (path, length, mode) of a Pod below a new directory."""
    start = 0
    files = [[path + "/.", 0, None] for path in asked["directories"]] + asked["files"]
    for path, length, mode in files:
        parts = raw_of(path).split(b"/")
        if path.startswith("/") or b".." in parts or (mode is not None and parts[-1] in (b"", b".")):
            raise ValueError(f"{path!r} leaves the Pod's directory")
        with walked(os.dup(at), [half, *parts_of(b"/".join(parts[:-1]))], make=True) as found:
            if mode is not None:
                write_file(found, parts[-1], body[start : start + length], mode & DIRECTORY_MODE)
        start += length


def do_link_claim(session: "Session", asked: "dict[str, Any]", _body: "bytes") -> "tuple[object, bytes]":
    """Take a claim; true if this token holds it, or its directory is missing. The link counts, not its error (NFS)."""
    try:
        return claimed(session, asked), b""
    except FileNotFoundError:
        return True, b""
    except Barred:
        return False, b""


def claimed(session: "Session", asked: "dict[str, Any]") -> "bool":
    """Take a claim; true if this token holds it. Raises FileNotFoundError without a directory."""
    with parent(session, asked["path"]) as (found, name):
        token = asked["token"].encode()
        mine = b".".join([name, token, os.urandom(8).hex().encode()])
        write_file(found, mine, token + b"\n")
        try:
            with contextlib.suppress(OSError):
                os.link(mine, name, src_dir_fd=found, dst_dir_fd=found, follow_symlinks=False)
                return True
            return os.stat(mine, dir_fd=found).st_nlink == 2 or owner(found, name) == token
        finally:
            os.unlink(mine, dir_fd=found)


def owner(at: "int", name: "bytes") -> "bytes":
    """The first line of a claim; empty if it cannot be read."""
    try:
        file = os.open(name, READ, dir_fd=at)
    except OSError:
        return b""
    try:  # not by fdopen, which refuses a directory and leaves it open
        return os.read(file, 256).partition(b"\n")[0].strip()
    except OSError:
        return b""
    finally:
        os.close(file)


def do_remove(session: "Session", asked: "dict[str, Any]", _body: "bytes") -> "tuple[object, bytes]":
    """Remove a file, an empty directory, or a directory and all below it, if it exists."""
    with contextlib.suppress(FileNotFoundError), parent(session, asked["path"]) as (found, name):
        if asked["what"] == "file":
            os.unlink(name, dir_fd=found)
        elif asked["what"] == "tree":
            remove_tree(found, name)
        else:
            try:
                os.rmdir(name, dir_fd=found)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
    return None, b""


def remove_tree(at: "int", name: "bytes") -> "None":
    """Remove a directory of any depth: each subdirectory is moved to its top and emptied there."""
    with entered(at, name) as top:
        while True:
            directories = unlink_others(top)
            for directory in directories:
                with entered(top, directory) as found:
                    for below in unlink_others(found):
                        open_up(found, below)
                        os.rename(below, hidden(b""), src_dir_fd=found, dst_dir_fd=top)
                os.rmdir(directory, dir_fd=top)
            if not directories:
                break
    os.rmdir(name, dir_fd=at)


def entered(at: "int", name: "bytes") -> "AbstractContextManager[int]":
    """A descriptor of a directory, after its owner got all permissions."""
    open_up(at, name)
    return walked(os.dup(at), [name])


def open_up(at: "int", name: "bytes") -> "None":
    """Give a directory's owner all permissions."""
    found = os.open(name, os.O_PATH | STEP, dir_fd=at)
    try:
        os.chmod(f"/proc/self/fd/{found}", DIRECTORY_MODE)
    finally:
        os.close(found)


def unlink_others(found: "int") -> "list[bytes]":
    """Remove everything but directories; returns the names of the directories."""
    directories = []
    for name in map(os.fsencode, os.listdir(found)):
        if stat.S_ISDIR(os.stat(name, dir_fd=found, follow_symlinks=False).st_mode):
            directories.append(name)
        else:
            os.unlink(name, dir_fd=found)
    return directories


def do_clock(session: "Session", _asked: "dict[str, Any]", _body: "bytes") -> "tuple[object, bytes]":
    """The file server's time."""
    with opened(session, [], make=True) as found:
        file = os.open(CLOCK, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=found)
    try:
        os.utime(file)
        return os.fstat(file).st_mtime, b""
    finally:
        os.close(file)


def do_run(session: "Session", asked: "dict[str, Any]", body: "bytes") -> "tuple[object, bytes]":
    """Run a command of the batch system: its exit code (null if it did not start or end), and its output."""
    try:
        environment, argv = command_of(asked["argv"])
        process = subprocess.Popen(  # type: Any
            [raw_of(word) for word in argv],
            executable=raw_of(program_of(argv[0], environment.get("PATH", PATH))),
            env=given(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        return [None, 0], raw_of(f"{argv[0]}: {error.strerror}")
    except ValueError as error:
        return [None, 0], raw_of(str(error))
    session.running.add(process.pid)
    try:
        return ended(process, body, asked["seconds"], session.begun + asked["at"] + asked["seconds"])
    finally:
        session.running.discard(process.pid)
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()


def command_of(argv: "list[str]") -> "tuple[dict[str, str], list[str]]":
    """The environment and the words of a command: ``env -i NAME=VALUE... program ...``, or the program alone."""
    environment, words = {"PATH": PATH}, list(argv)
    if words[:2] == ["env", "-i"]:
        environment, words = {}, words[2:]
        while words and "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            if VARIABLES.fullmatch(name) is None:
                raise ValueError(f"the site helper gives no command the variable {name}")
            environment[name] = value
    place = changed_by(environment)
    if place is not None:
        raise ValueError(f"the site helper gives no command {place}, which the user can change")
    server = environment.get("SLURM_CONF_SERVER")
    if server is not None and server not in CONF_SERVERS:
        raise ValueError(f"the site helper gives no command SLURM_CONF_SERVER={server}; CONF_SERVERS in it may name it")
    if not words or any("\0" in word for word in list(argv)):
        raise ValueError("the site helper was given no command")
    if os.path.basename(words[0]) == "scontrol" and words[1:2] != ["show"]:
        raise ValueError("the site helper runs scontrol show, and nothing else of scontrol")
    return environment, words


def changed_by(environment: "dict[str, str]") -> "str | None":
    """The variable that names settings of the user's own."""
    found = ((name, environment[name]) for name in CONF_FILES if name in environment)
    return next((f"{name}={one}" for name, one in found if not one.startswith("/") or is_users(one)), None)


def given(environment: "dict[str, str]") -> "dict[bytes, bytes]":
    """The environment of a process: what it starts by ``PATH`` is nothing that the user can put there."""
    places = environment.get("PATH", "").split(":")
    path = ":".join(place for place in places if place.startswith("/") and not is_users(place))
    told = dict(environment, PATH=path) if "PATH" in environment else environment
    return {raw_of(name): raw_of(value) for name, value in told.items()}


def program_of(name: "str", path: "str", programs: "frozenset[str]" = PROGRAMS) -> "str":
    """The file of a program. Raises ValueError if it is not allowed, FileNotFoundError if it is missing."""
    base = os.path.basename(name)
    if programs is PROGRAMS and base in ENTERS:
        raise ValueError(f"the site helper runs no {name}; kubectl exec alone starts it, within a running job")
    if name not in FURTHER_PROGRAMS and base not in programs.union(FURTHER_PROGRAMS):
        raise ValueError(f"the site helper runs no {name}; FURTHER_PROGRAMS in it may name it")
    for found in [name] if "/" in name else [os.path.join(directory, name) for directory in path.split(":")]:
        if found.startswith("/") and os.path.isfile(found) and os.access(found, os.X_OK):
            seen = os.stat(found)
            if name.startswith("/") and name in FURTHER_PROGRAMS:
                return found
            if is_users(found) or seen.st_mode & stat.S_IWOTH:
                raise ValueError(f"the site helper does not run {found}, which the user can change")
            if base == IMAGES and (seen.st_uid or seen.st_mode & stat.S_IWGRP):
                raise ValueError(f"the site helper does not run {found}: make it root's, with mode 0755")
            return found
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def is_users(path: "str") -> "bool":
    """Whether the user, if not root, could put another file there: owns or may write it, or a directory above it.

    A link counts with where it lies and where it leads. What /proc and /dev show depends on who looks.
    """
    if not os.getuid():
        return False
    for place in (path, os.path.realpath(path)):
        parts = parts_of(raw_of(place))
        if not place.startswith("/") or parts[:1] in ([b"proc"], [b"dev"]):
            return True
        for count in range(len(parts) + 1):
            step = b"/" + b"/".join(parts[:count])
            with contextlib.suppress(FileNotFoundError):
                if os.lstat(step).st_uid == os.getuid() or os.access(step, os.W_OK):
                    return True
    return False


def ended(process: "Any", body: "bytes", seconds: "float", until: "float") -> "tuple[object, bytes]":
    """How a command ended; after too much time or output it is killed, with all that it started.

    Its time counts from the request: the agent does not wait for longer.
    """
    kept = {process.stdout: bytearray(), process.stderr: bytearray()}
    words = ""
    if exchanged(process, body, kept, until):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0, until - time.monotonic()))
    if process.returncode is None:
        large = sum(map(len, kept.values())) > MOST_OUTPUT
        words = f"printed more than {MOST_OUTPUT} bytes" if large else f"gave no answer within {seconds:g} seconds"
        kill(process.pid)
        exchanged(process, b"", kept, time.monotonic() + AFTER_KILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(AFTER_KILL)
    out, err = bytes(kept[process.stdout]), bytes(kept[process.stderr])
    return [None if words else process.returncode, len(out)], out + err + words.encode()


def exchanged(process: "Any", body: "bytes", kept: "dict[Any, bytearray]", until: "float") -> "bool":
    """Write and read until all pipes are closed; false after too much time or output."""
    left = memoryview(body)
    with selectors.DefaultSelector() as selector:
        for pipe in [*kept, process.stdin]:
            if not pipe.closed:
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_WRITE if pipe is process.stdin else selectors.EVENT_READ)
        while selector.get_map():
            if time.monotonic() >= until or sum(map(len, kept.values())) > MOST_OUTPUT:
                return False
            ready = selector.select(max(0, until - time.monotonic()))  # type: Any
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    left = left[written(key.fd, left) :]
                    finished = not left
                else:
                    block = os.read(key.fd, BLOCK)
                    kept[key.fileobj] += block
                    finished = not block
                if finished:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
    return True


def written(descriptor: "int", data: "memoryview") -> "int":
    """The number of bytes that a pipe took; all of them if its reader has closed it."""
    try:
        return os.write(descriptor, data[:BLOCK])
    except BrokenPipeError:
        return len(data)


def kill(pid: "int") -> "None":
    """Kill a command and what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def do_nothing(_session: "Session", asked: "dict[str, Any]", _body: "bytes") -> "tuple[object, bytes]":
    """Answer a ping. Raises TimeoutError for a request so old that the agent no longer waits for its answer."""
    if asked["do"] != "ping":
        raise TimeoutError(errno.ETIMEDOUT, "arrived too late, and was not done")
    return None, b""


OPERATIONS = {
    "names": do_names,
    "status": do_status,
    "read": do_read,
    "put": do_put,
    "make_directory": do_make_directory,
    "write_pod": do_write_pod,
    "link_claim": do_link_claim,
    "remove": do_remove,
    "clock": do_clock,
    "run": do_run,
    "ping": do_nothing,
    "late": do_nothing,
}


def answer(session: "Session", asked: "dict[str, Any]", body: "bytes", sink: "Sink") -> "None":
    """Do a request and answer it. A request so old that the agent no longer waits is refused."""
    told, out = {"n": asked.get("n")}, b""  # type: dict[str, object], bytes
    try:
        late = time.monotonic() - session.begun - asked["at"] > asked["seconds"]
        told["value"], out = OPERATIONS["late" if late else asked["do"]](session, asked, body)
    except OSError as error:
        told["errno"], told["error"] = error.errno or 0, error.strerror or str(error)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        told["errno"], told["error"] = -1, str(error) if isinstance(error, ValueError) else "is not understood"
    sink.send(told, out)


def over_ssh(argv: "list[str]", root: "bytes") -> "bool":
    """Whether ssh is to take the user's own file into a running job, and nothing else.

    The last word passes the user's login shell on the node, so the file's path must be one quoted word. A backslash
    means more to some shells between quotes.
    """
    if argv[1:-2] != SSH or NODE.fullmatch(argv[-2]) is None:
        return False
    head = TAKEN.match(argv[-1])
    quoted = argv[-1][head.end() :] if head else ""
    try:
        [path] = shlex.split(quoted)
    except ValueError:
        return False
    return quoted == shlex.quote(path) and "\\" not in path and is_inside(path, root)


def is_inside(path: "str", root: "bytes") -> "bool":
    """Whether this is the file that the agent puts into a Pod's directory for kubectl exec."""
    try:
        return steps_of(root, path)[-1:] == [b"inside"]
    except ValueError:
        return False


def changed_on_the_way(far: "str") -> "str | None":
    """The place in the far command's variables where the user could put a program, or settings, of their own."""
    head = TAKEN.match(far)
    for setting in head.group(1).split() if head else ():
        name, _, value = setting.partition("=")
        for place in value.split(":") if name == "PATH" else [value] if name == "PBS_CONF_FILE" else []:
            if not place.startswith("/") or is_users(place):
                return place or "."
    return None


def within_a_job(argv: "list[str]", environment: "dict[str, str]", root: "bytes") -> "str":
    """The file of a program that starts a step within a running job. Raises as ``program_of`` does."""
    name = os.path.basename(argv[0])
    if argv[0] not in ENTERING and name not in ENTERING:
        raise ValueError(f"its ENTERING does not name {argv[0]}")
    if name == "ssh":
        if not over_ssh(argv, root):
            raise ValueError("the site helper starts ssh in one form only, into a running job")
        place = changed_on_the_way(argv[-1])
        if place is not None:
            raise ValueError(f"the site helper names no {place} to the node, which the user can change")
    elif not any(map(JOB.fullmatch, argv[1:2])) or argv[2:-1] != PLACE or not is_inside(argv[-1], root):
        raise ValueError(f"the site helper starts {argv[0]} within a running job only, and in one form")
    elif not SRUN_VARIABLES.issuperset(environment):
        raise ValueError(f"the site helper starts {argv[0]} with {', '.join(sorted(SRUN_VARIABLES))} alone")
    return program_of(argv[0], environment.get("PATH", PATH), frozenset(map(os.path.basename, ENTERING)))


def become(session: "Session", asked: "dict[str, Any]", source: "BinaryIO", sink: "Sink") -> "None":
    """Become a command within a running job: from then on its stdin and stdout are the connection's.

    Returns if it cannot be; that was answered then. The agent sends no further request before it has the answer.
    """
    told = {"n": asked.get("n"), "value": None}  # type: dict[str, object]
    try:
        environment, argv = command_of(asked["argv"])
        program = within_a_job(argv, environment, session.root)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sink.send(dict(told, errno=getattr(error, "errno", -1), error=str(error)), b"")
        return
    sink.send(told, b"")
    os.dup2(source.fileno(), 0)
    os.dup2(sink.descriptor, 1)
    os.chdir("/")
    names = given(environment)
    try:
        os.execve(raw_of(program), [raw_of(word) for word in argv], names)
    except OSError as error:
        sys.stderr.write(f"{program}: {error.strerror}\n")
    finally:
        os._exit(126)


def user_name() -> "str":
    """The name of this process's user, or the uid if it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def begin(asked: "dict[str, Any]") -> "Session":
    """Check the user's directory, make it if missing, and set its mode to 0700. Raises OSError, ValueError.

    If the request's ``make`` is false (read-only use), the directory stays as it is and may be missing.
    """
    session, user = Session(raw_of(asked["root"])), user_name()
    places = [parts_of(raw_of(place.replace("{user}", user))) for place in ROOTS or ("/",)]
    parts = parts_of(session.root)
    if b".." in parts or not any(parts[: len(place)] == place for place in places):
        raise ValueError(f"{asked['root']} does not lie below a directory that ROOTS in the site helper names")
    make = asked.get("make", True)
    try:
        with opened(session, [], make=make) as found:
            seen = os.fstat(found)
            if seen.st_uid != os.getuid():
                raise ValueError(f"{asked['root']} belongs to uid {seen.st_uid}, and not to {user}")
            if make and seen.st_mode & 0o077:
                os.fchmod(found, DIRECTORY_MODE)
    except FileNotFoundError:
        if make:
            raise
    return session


class Sink:
    """Writes whole answers to stdout, for several threads."""

    def __init__(self, descriptor: "int") -> None:
        self.descriptor = descriptor
        self.lock = threading.Lock()

    def send(self, head: "dict[str, object]", body: "bytes") -> "None":
        """Send one message; a closed connection is ignored."""
        if len(body) > MOST_BODY:
            head, body = {"n": head.get("n"), "errno": errno.EFBIG, "error": "is more than one answer holds"}, b""
        raw = json.dumps(head).encode()
        left = memoryview(LENGTHS.pack(len(raw), len(body)) + raw + body)
        with self.lock, contextlib.suppress(BrokenPipeError):
            while left:
                left = left[os.write(self.descriptor, left) :]


def receive(source: "BinaryIO") -> "tuple[dict[str, Any], bytes]":
    """The next message. Raises EOFError at the end, ValueError for anything else."""
    lengths = source.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        raise EOFError
    head, body = LENGTHS.unpack(lengths)
    if head > MOST_HEAD or body > MOST_BODY:
        raise ValueError(f"a message of {head + body} bytes")
    raw = source.read(head + body)
    if len(raw) < head + body:
        raise EOFError
    asked = json.loads(raw[:head].decode())
    if not isinstance(asked, dict):
        raise ValueError("no JSON object")
    return asked, raw[head:]


def serve(source: "BinaryIO", sink: "Sink") -> "None":
    """Answer until the requests end."""
    asked, _ = receive(source)
    try:
        session = begin(asked)
    except (OSError, ValueError) as error:
        words = f"{asked['root']}: {error.strerror}" if isinstance(error, OSError) else str(error)
        told = {"version": VERSION, "oldest": OLDEST, "errno": getattr(error, "errno", -1), "error": words}
        sink.send(dict(told, n=0), b"")
        return
    sink.send({"n": 0, "value": None, "version": VERSION, "oldest": OLDEST}, b"")
    pool = ThreadPoolExecutor(THREADS)
    with contextlib.suppress(EOFError):
        while True:
            asked, body = receive(source)
            if asked.get("do") == "ping":  # answered here, as all threads may be waiting for a file system
                answer(session, asked, body, sink)
            elif asked.get("do") == "become":
                become(session, asked, source, sink)
            else:
                pool.submit(answer, session, asked, body, sink)
    for pid in list(session.running):
        kill(pid)


def main() -> "None":
    """Serve the requests on stdin, as this process's user."""
    if os.getuid() < LEAST_UID or os.getuid() != os.geteuid():
        sys.stderr.write(f"the site helper does not serve uid {os.getuid()}: LEAST_UID in it is {LEAST_UID}\n")
        sys.exit(3)
    os.umask(0o077)
    source, sink = os.fdopen(os.dup(0), "rb"), Sink(os.dup(1))
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    os.write(sink.descriptor, MAGIC)
    with contextlib.suppress(EOFError):
        serve(source, sink)
    sys.stdout.flush()
    os._exit(0)  # without waiting for threads that wait for a file system


if __name__ == "__main__":
    main()
