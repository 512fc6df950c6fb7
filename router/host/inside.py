#!/usr/bin/python3 -I
"""Runs one command in a running container of its user: what `kubectl exec` starts on a node.

One file for Python 3.6 and its standard library, as on compute nodes. The agent puts it into the Pod's directory, and
the batch system starts it within the job, as the job's user. It gets all that it needs as data on stdin, never as words
of a command: frames of one letter, a length (4 bytes, big-endian) and bytes. It ends with its stdin, and takes the
command with all that it started along. It enters only namespaces that the user's own rights open.
"""

# Names below /proc and descriptors: pathlib does not fit.
# ruff: noqa: PTH115, PTH116, PTH123, PTH208, S606

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import pty
import select
import signal
import stat
import struct
import sys
import termios
import time
from typing import Any

MAGIC = b"\0batchgate-inside\0"  # first on stdout: the agent skips what a launcher prints before it
FRAME = struct.Struct(">cI")
MOST_FRAME = 1 << 20  # bytes of one frame
REQUEST, STDIN, CLOSED, SIZE = b"q", b"i", b"c", b"w"  # to this program
STARTED, STDOUT, STDERR, EXIT = b"s", b"o", b"e", b"x"  # from it
BLOCK = 1 << 15
MOST_WAITING = 4 * BLOCK  # bytes that wait in each direction; then reading stops.
QUIET = 2.0  # seconds without output after the command's end; a process that it left may hold its pipes.
LOOK = 1.0  # seconds between two looks whether the container is still there.
AFTER_HANGUP = 2.0  # seconds between HUP and KILL.
NAMESPACES = ("user", "mnt", "uts", "ipc", "net", "cgroup", "pid")  # in the order in which they are entered
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38


class Unfit(Exception):
    """The command cannot be run; the text is one clause."""


class Container:
    """A running container: descriptors of its namespaces, root and working directory, and its environment."""

    def __init__(self, pid: "int", leader: "Process", *, inside: "bool") -> None:
        place = f"/proc/{pid}"
        self.leader = leader
        try:
            self.environment = environment_of(place)
            self.directory = os.open(f"{place}/cwd", os.O_PATH | os.O_CLOEXEC)
            self.root = os.open(f"{place}/root", os.O_PATH | os.O_CLOEXEC) if inside else -1
            self.namespaces = [opened for opened in map(foreign(place), NAMESPACES) if opened >= 0] if inside else []
        except PermissionError:
            raise Unfit("its container was started with more rights than its user has (setuid)") from None


def foreign(place: "str") -> "Any":
    """A function that opens a namespace of a process by its kind; -1 where it is ours too, or the kernel has none."""

    def opened(kind: "str") -> "int":
        try:
            theirs, ours = os.stat(f"{place}/ns/{kind}"), os.stat(f"/proc/self/ns/{kind}")
        except FileNotFoundError:
            return -1
        return -1 if theirs.st_ino == ours.st_ino else os.open(f"{place}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)

    return opened


def environment_of(place: "str") -> "dict[bytes, bytes]":
    """A process' environment as it was started with it."""
    with open(f"{place}/environ", "rb") as file:
        pairs = [one.partition(b"=") for one in file.read().split(b"\0")]
    return {name: value for name, equals, value in pairs if equals and name}


class Process:
    """What is needed of a line of ``/proc``."""

    def __init__(self, pid: "int") -> None:
        with open(f"/proc/{pid}/stat", "rb") as file:
            rest = file.read().rpartition(b")")[2].split()
        self.pid, self.parent, self.session, self.started = pid, int(rest[1]), int(rest[3]), int(rest[19])

    def lives(self) -> "bool":
        """Whether this very process is still there."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            return Process(self.pid).started == self.started
        return False


def processes() -> "dict[int, Process]":
    """The processes of our user."""
    found = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if os.stat(f"/proc/{int(name)}").st_uid == os.getuid():
                found[int(name)] = Process(int(name))
    return found


def find(log: "str", *, inside: "bool") -> "Container":
    """The container whose output goes into this log.

    The script's process that writes the log and the container's first process have one parent. A process in a
    container with process ids of its own cannot have that parent. So none passes for another's.
    """
    known = processes()
    written = os.stat(log)
    writers = {one.pid for one in known.values() if writes(one.pid, written)}
    parents = {known[pid].parent for pid in writers}
    leaders = [
        one for one in known.values() if one.parent in parents and one.session == one.pid and one.pid not in writers
    ]
    if len(leaders) != 1:
        raise Unfit("no process of its container was found on this node")
    if not inside:
        return Container(leaders[0].pid, leaders[0], inside=False)
    pid = first_inside(leaders[0].pid, known)
    if pid is None:
        raise Unfit("no process of its container runs on this node yet, or its runtime started it with more rights")
    return Container(pid, leaders[0], inside=True)


def writes(pid: "int", written: "os.stat_result") -> "bool":
    """Whether a process of our own namespaces has the log as its stdout."""
    with contextlib.suppress(OSError):
        seen = os.stat(f"/proc/{pid}/fd/1")
        mine = (seen.st_dev, seen.st_ino) == (written.st_dev, written.st_ino)
        return mine and mounts(pid) == mounts("self")
    return False


def first_inside(leader: "int", known: "dict[int, Process]") -> "int | None":
    """The first process of the container below its runtime's, breadth first.

    The runtime's outermost process may have a mount namespace of its own, with programs that mount the image.
    """
    level = [(leader, {mounts("self")})]
    while level:
        below = []
        for pid, outer in level:
            with contextlib.suppress(OSError):
                found = mounts(pid)
                if is_starter(pid):
                    outer = outer | {found} if len(outer) == 1 else outer  # noqa: PLW2901
                elif found not in outer:
                    return pid
                below += [(one.pid, outer) for one in known.values() if one.parent == pid]
        level = sorted(below, key=lambda one: one[0])
    return None


def mounts(pid: "int | str") -> "int":
    """The number of a process' mount namespace."""
    return os.stat(f"/proc/{pid}/ns/mnt").st_ino


def is_starter(pid: "int") -> "bool":
    """Whether this is a process of Apptainer or Singularity itself."""
    parts = os.readlink(f"/proc/{pid}/exe").split("/")
    return parts[-1] in ("starter", "starter-suid") and ("apptainer" in parts or "singularity" in parts)


def libc_call(name: "str", *arguments: "int") -> "None":
    """Call a function of the C library. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Streams:
    """The command's ends of its pipes or terminal (``theirs``), and ours."""

    def __init__(self, *, stdin: "bool", terminal: "bool") -> None:
        self.terminal = terminal
        if terminal:
            ours, name = pty.openpty()
            self.theirs = [name] * 3
            self.stdin, self.outputs = (ours if stdin else -1), {ours: STDOUT}
        else:
            read, self.stdin = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), -1)
            (out, out_end), (error, error_end) = os.pipe(), os.pipe()
            self.theirs = [read, out_end, error_end]
            self.outputs = {out: STDOUT, error: STDERR}
        self.master = ours if terminal else -1
        for descriptor in (*self.outputs, self.stdin):
            if descriptor >= 0:
                os.set_blocking(descriptor, False)

    def close_theirs(self) -> "None":
        """Close the command's ends."""
        for descriptor in set(self.theirs):
            os.close(descriptor)

    def resize(self, columns: "int", rows: "int") -> "None":
        """Set the terminal's size."""
        if self.master >= 0:
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end_stdin(self) -> "None":
        """Tell the command that its stdin has ended."""
        if self.stdin >= 0 and not self.terminal:
            os.close(self.stdin)
        self.stdin = -1


def start(container: "Container", argv: "list[bytes]", streams: "Streams") -> "tuple[int, int]":
    """Start the command: the process to wait for, and the command's own. Raises Unfit if it could not be started.

    Its process ids are those of the container, for which a process between it and us is needed.
    """
    told, tell = os.pipe()
    between = os.fork()
    if not between:
        os.close(told)
        enter(container, argv, streams, tell)
    os.close(tell)
    with os.fdopen(told, "rb") as source:
        lines = source.read().split(b"\n")[:-1]
    failures = [line for line in lines if not line.isdigit()]
    if lines and not failures:
        return between, int(lines[0])
    os.waitpid(between, 0)
    raise Unfit((failures or [b"its process ended at its start"])[0].decode("utf-8", "replace"))


def enter(container: "Container", argv: "list[bytes]", streams: "Streams", tell: "int") -> "None":
    """The process between: enters the namespaces, starts the command and ends as it does. Does not return."""
    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        for namespace in container.namespaces:
            libc_call("setns", namespace, 0)
        libc_call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        command = os.fork()
        if not command:
            become(container, argv, streams, tell)
        os.write(tell, b"%d\n" % command)
        os.close(tell)
        for descriptor in {*streams.theirs, *streams.outputs, *([streams.stdin] if streams.stdin >= 0 else [])}:
            os.close(descriptor)
        _, status = os.waitpid(command, 0)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    except OSError as error:
        os.write(tell, b"this node does not let its user enter the container: %s\n" % str(error.strerror).encode())
    finally:
        os._exit(code)


def become(container: "Container", argv: "list[bytes]", streams: "Streams", tell: "int") -> "None":
    """Become the command. Does not return."""
    try:
        os.setsid()
        libc_call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.umask(0o022)
        os.fchdir(container.root if container.root >= 0 else container.directory)
        if container.root >= 0:
            os.chroot(".")
            os.fchdir(container.directory)
            libc_call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        for number, descriptor in enumerate(streams.theirs):
            os.dup2(descriptor, number)
        environment = dict(container.environment)
        if streams.terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            environment.setdefault(b"TERM", b"xterm")
        run(argv, environment)
    except OSError as error:
        os.write(tell, b'exec of "%s" failed: %s\n' % (argv[0], str(error.strerror).encode()))
    finally:
        os._exit(127)


def run(argv: "list[bytes]", environment: "dict[bytes, bytes]") -> "None":
    """Execute a command that is looked up as a shell does. Raises OSError if it cannot be."""
    path = environment.get(b"PATH", b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    places = [argv[0]] if b"/" in argv[0] else [b"/".join([one or b".", argv[0]]) for one in path.split(b":")]
    worst = OSError(errno.ENOENT, "executable file not found in $PATH" if len(places) > 1 else "no such file")
    for place in places:
        try:
            os.execve(place, argv, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            worst = error
    raise worst


class Conversation:
    """The frames between the agent and the command."""

    def __init__(self, streams: "Streams") -> None:
        self.streams = streams
        self.received = bytearray()
        self.to_command = bytearray()
        self.to_agent = bytearray()
        self.closed = False  # the agent has said that stdin ends
        self.gone = False  # the agent, or the way to it, is gone
        self.woken = woken_by_signals()

    def poll(self, timeout: "float") -> "bool":
        """Carry bytes for once. Returns whether the command printed any."""
        poll, outputs = select.poll(), self.streams.outputs
        poll.register(0, 0 if len(self.to_command) >= MOST_WAITING else select.POLLIN)
        poll.register(1, select.POLLOUT if self.to_agent else 0)
        poll.register(self.woken, select.POLLIN)
        if self.streams.stdin >= 0 and self.to_command:
            mask = select.POLLOUT | (select.POLLIN if self.wants(self.streams.stdin) else 0)
            poll.register(self.streams.stdin, mask)
        for descriptor in outputs:
            if self.wants(descriptor) and not (descriptor == self.streams.stdin and self.to_command):
                poll.register(descriptor, select.POLLIN)
        printed = False
        for descriptor, events in poll.poll(int(timeout * 1000)):
            if descriptor == 0:
                self.receive(events)
            elif descriptor == 1:
                self.send(events)
            elif descriptor == self.woken:
                self.gone = self.gone or bool(set(os.read(self.woken, BLOCK)) - {signal.SIGCHLD})
            else:
                if descriptor == self.streams.stdin and events & (select.POLLOUT | select.POLLERR):
                    self.feed()
                if descriptor in outputs and events & (select.POLLIN | select.POLLHUP):
                    printed = self.take(descriptor) or printed
        return printed

    def wants(self, descriptor: "int") -> "bool":
        """Whether more of this output may be read."""
        return descriptor in self.streams.outputs and len(self.to_agent) < MOST_WAITING

    def receive(self, events: "int") -> "None":
        """Read from the agent."""
        if not events & select.POLLIN:
            self.gone = bool(events & (select.POLLHUP | select.POLLERR))
            return
        data = os.read(0, BLOCK)
        self.gone = self.gone or not data
        self.received += data
        for kind, body in frames(self.received):
            if kind == STDIN and self.streams.stdin >= 0:
                self.to_command += body
            elif kind == CLOSED:
                self.closed = True
            elif kind == SIZE:
                columns, rows = json.loads(body.decode())
                self.streams.resize(int(columns) & 0xFFFF, int(rows) & 0xFFFF)
        if self.closed and not self.to_command:
            self.streams.end_stdin()

    def feed(self) -> "None":
        """Write to the command's stdin; what it does not read any more is dropped."""
        try:
            del self.to_command[: os.write(self.streams.stdin, self.to_command[:BLOCK])]
        except BlockingIOError:
            return
        except OSError:
            self.to_command.clear()
            self.closed = True
        if self.closed and not self.to_command:
            self.streams.end_stdin()

    def take(self, descriptor: "int") -> "bool":
        """Read what the command prints; an end closes the pipe."""
        try:
            data = os.read(descriptor, BLOCK)
        except BlockingIOError:
            return False
        except OSError:  # a terminal without a process
            data = b""
        if data:
            self.tell(self.streams.outputs[descriptor], data)
            return True
        del self.streams.outputs[descriptor]
        if descriptor == self.streams.master:
            self.streams.stdin = self.streams.master = -1
        os.close(descriptor)
        return False

    def tell(self, kind: "bytes", body: "bytes") -> "None":
        """Send a frame to the agent, later."""
        self.to_agent += FRAME.pack(kind, len(body)) + body

    def send(self, events: "int") -> "None":
        """Write what waits for the agent."""
        if not events & select.POLLOUT:
            self.gone = True
            return
        try:
            del self.to_agent[: os.write(1, self.to_agent[:BLOCK])]
        except BlockingIOError:
            pass
        except OSError:
            self.gone = True


def woken_by_signals() -> "int":
    """A descriptor from which each signal can be read: the command's end, or that the batch system ends the job."""
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    return woken


def frames(received: "bytearray") -> "list[tuple[bytes, bytes]]":
    """The whole frames among received bytes, which are taken out. Raises Unfit for one that is too long."""
    found = []
    while len(received) >= FRAME.size:
        kind, length = FRAME.unpack_from(received)
        if length > MOST_FRAME:
            raise Unfit("a frame that is too long came")
        if len(received) < FRAME.size + length:
            break
        found.append((kind, bytes(received[FRAME.size : FRAME.size + length])))
        del received[: FRAME.size + length]
    return found


def serve(conversation: "Conversation", leader: "Process", between: "int", command: "int") -> "int":
    """Carry bytes until the command has ended; returns its exit code, 128 and more for a signal.

    A command without process ids of the container's own is ended with it here.
    """
    code, quiet = None, 0.0
    while not conversation.gone:
        printed = conversation.poll(LOOK if code is None else 0.05 if conversation.streams.outputs else 0)
        if code is None:
            if not leader.lives():
                end(between, command, (signal.SIGKILL,))
            pid, status = os.waitpid(between, os.WNOHANG)
            if pid:
                code, quiet = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 137, time.monotonic()
        elif printed or conversation.to_agent:
            quiet = time.monotonic()
        elif not conversation.streams.outputs or time.monotonic() - quiet > QUIET:
            return code
    end(between, command, (signal.SIGHUP, signal.SIGKILL))
    return 137


def end(between: "int", command: "int", signals: "tuple[int, ...]") -> "None":
    """End the command and all that is left of its session by these signals, with time between them."""
    for number in signals:
        until = time.monotonic() + AFTER_HANGUP
        while time.monotonic() < until:
            left = [one.pid for one in processes().values() if one.session == command]
            if not left:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.kill(between, signal.SIGKILL)


def asked() -> "dict[str, Any]":
    """The request, which comes first. Raises Unfit, EOFError."""
    received = bytearray()
    while True:
        data = os.read(0, FRAME.size - len(received)) if len(received) < FRAME.size else b""
        if len(received) >= FRAME.size:
            length = FRAME.unpack_from(received)[1]
            if length > MOST_FRAME:
                raise Unfit("a frame that is too long came")
            if len(received) == FRAME.size + length:
                break
            data = os.read(0, FRAME.size + length - len(received))
        if not data:
            raise EOFError
        received += data
    [(kind, body)] = frames(received)
    if kind != REQUEST:
        raise Unfit("the request did not come first")
    return dict(json.loads(body.decode()))


def answer() -> "dict[str, Any]":
    """Do what is asked; returns what the agent is told in the end."""
    request = asked()
    container = find(request["log"], inside=request["inside"])
    streams = Streams(stdin=request["stdin"], terminal=request["terminal"])
    conversation = Conversation(streams)
    between, command = start(container, [word.encode("utf-8", "surrogateescape") for word in request["argv"]], streams)
    streams.close_theirs()
    conversation.tell(STARTED, b"")
    for descriptor in (0, 1):
        os.set_blocking(descriptor, False)
    code = serve(conversation, container.leader, between, command)
    if conversation.gone:
        raise EOFError
    return {"code": code}


def main() -> "None":
    """Serve one request on stdin."""
    if not stat.S_ISFIFO(os.fstat(0).st_mode) and not stat.S_ISSOCK(os.fstat(0).st_mode):
        sys.exit("this program is started by a Batchgate agent, on a pipe")
    os.write(1, MAGIC)
    try:
        told = answer()
    except EOFError:
        return
    except Unfit as error:
        told = {"error": str(error)}
    except OSError as error:
        told = {"error": f"{error.filename or 'the node'}: {error.strerror}"}
    raw = json.dumps(told).encode()
    os.set_blocking(1, True)
    with contextlib.suppress(BrokenPipeError):
        os.write(1, FRAME.pack(EXIT, len(raw)) + raw)


if __name__ == "__main__":
    main()
