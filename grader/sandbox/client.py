"""The trusted side of the sandbox: starts the zygote, asks it for workers, talks to them under deadlines, ends them.

Believes nothing that a worker says. Knows nothing of courses: it is given files and limits.
"""

from __future__ import annotations

import array
import contextlib
import errno
import json
import math
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
import torch

from . import affinity, jail, wire
from .environment import clean_environment

ROOT = Path(__file__).resolve().parents[2]
MOUNT_POINT = "attention-ladder-"  # begins the names of the empty folders on which private roots are mounted
START_SECONDS = 60.0  # a fresh zygote imports torch
HELLO_SECONDS = 20.0
FLOOD_BYTES = 16 << 20  # printed; past it the worker is ended
ANSWER_BYTES = 1 << 30  # of memory that the answers within one test may take on this side
HEADER_WEIGHT = 32  # bytes of memory that a byte of a header may become
HOARD_BYTES = 4 << 20  # what code may hold besides what it was sent: modules that it imported, small objects
FOLDER_SECONDS = 0.1  # between two looks at how much a worker has written
DEATH_SECONDS = 0.05  # a process that closed its end of the wire has ended by then, or did not mean to end


class SandboxError(Exception):
    """The grader's own trouble: no worker could be had. `str` says why."""


class WorkerGone(Exception):
    """The worker died, hung, flooded or broke the protocol; `str` is a sentence for the learner."""

    hung = False


class WorkerHung(WorkerGone):
    """No answer in time."""

    hung = True


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker may take."""

    call_seconds: float = 10.0
    memory_mb: int = 2048
    cpu_seconds: int = 120
    output_kb: int = 64
    files: bool = False  # a folder to write to, of at most jail.TMP_BYTES


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """The files a worker loads, and the calls that its graded names must do without."""

    main: str
    files: dict[str, bytes]
    name: str = "exercises"
    forbidden: dict[str, list[str]] = {}

    def load_message(self) -> tuple[wire.Load, wire.Blob]:
        """The first frame that a worker gets."""
        blob = wire.Blob()
        files = {name: wire.bytes_tensor(data) for name, data in self.files.items()}
        message = wire.Load(package=self.name, main=self.main, files=wire.encode(files, blob), forbidden=self.forbidden)
        return message, blob


class Transport(Protocol):
    """Something that carries a request to an executor and its answer back."""

    def request(
        self, request: wire.Request, blob: wire.Blob, streams: dict[int, Stream]
    ) -> tuple[wire.Ok | wire.Raised, bytearray]:
        """Raises `WorkerGone` when there will be no answer."""

    def broken(self, reason: str) -> WorkerGone:
        """End the other side, whose answer is none, and say so."""


class Stream:
    """An iterator that stays on the trusted side; `pulled` counts the items that the learner's code asked for."""

    def __init__(self, items: Any) -> None:
        self._items = iter(items)
        self.pulled = 0

    def __next__(self) -> Any:
        item = next(self._items)
        self.pulled += 1
        return item


def _remove_leftovers() -> None:
    """Remove the folders of commands that were killed before they could do it themselves."""
    for path in Path(tempfile.gettempdir()).glob(f"{MOUNT_POINT}*-*"):
        number = path.name.removeprefix(MOUNT_POINT).split("-")[0]
        with contextlib.suppress(OSError):
            if number.isdigit() and not _exists(int(number)):
                shutil.rmtree(path) if "-files-" in path.name else path.rmdir()


def _bytes_in(folder: str) -> int:
    """What the files of a folder take on the disk, as far as it can be seen."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
    return total


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class Sandbox:
    """A source of workers: one zygote, one tier.

    `start="fork"` forks the zygote from this process, which must not hold secrets yet (and must have torch loaded);
    `start="spawn"` starts a clean one. `isolation` is "auto" or one of "A" to "D".
    """

    def __init__(self, isolation: str = "auto", *, start: str = "spawn") -> None:
        if isolation not in ("auto", *jail.TIERS):
            raise SandboxError(f"isolation {isolation!r}: allowed are auto, {', '.join(jail.TIERS)}")
        self.wanted = isolation
        self.tier = "D" if sys.platform != "linux" else None if isolation == "auto" else isolation
        if self.tier == "D" and isolation not in ("auto", "D"):
            raise SandboxError(f"isolation {isolation} needs Linux; this is {sys.platform}, which has D only")
        self.layers: list[str] = []
        self.refusals: list[str] = []  # why higher tiers could not be had
        _remove_leftovers()
        self._root = tempfile.mkdtemp(prefix=f"{MOUNT_POINT}{os.getpid()}-")
        os.chmod(self._root, 0o755)
        self._control: socket.socket | None = None
        self._zygote = 0
        self._process: subprocess.Popen | None = None
        self._lock = threading.Lock()
        self._spare: tuple[Limits, Worker] | None = None
        if self.tier != "D":
            self._fork_zygote() if start == "fork" else self._spawn_zygote()
        self._known = self._zygote

    def _fork_zygote(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                from . import zygote

                zygote.main_loop(theirs)
            finally:
                os._exit(70)
        theirs.close()
        self._zygote, self._control = pid, ours

    def _spawn_zygote(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "grader.sandbox.zygote", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        self._zygote, self._control = self._process.pid, ours

    def _await_zygote(self) -> None:
        """The first request waits until the zygote has warmed up; imports on the trusted side go on meanwhile."""
        assert self._control is not None
        if self._control.gettimeout() is None:
            self._control.settimeout(START_SECONDS)
            try:
                if self._control.recv(16) != b"ready":
                    raise EOFError
            except (OSError, EOFError) as error:
                self._control.settimeout(None)
                raise SandboxError(f"the zygote did not start ({type(error).__name__})") from None

    def worker(self, package: Package, limits: Limits | None = None) -> Worker:
        """A fresh jailed worker that holds `package`. Tries the tiers from the best down when isolation is "auto"."""
        spare, self._spare = self._spare, None
        if spare is not None and spare[0] == (limits or Limits()) and spare[1].is_idle():
            worker = spare[1]
        else:
            if spare is not None:
                spare[1].kill()
            worker = self._jailed(limits)
        worker.load(package)
        return worker

    @contextlib.contextmanager
    def one_core(self) -> Iterator[None]:
        """Meanwhile this thread, the zygote and all new workers stay on one core that no other sandbox keeps to, if there is one left;
        and torch has one thread here.

        Of a worker and whoever asks it one always waits. On two cores, each question and each answer wakes a core that has gone
        to sleep, which takes more CPU time than most questions do.
        """
        if self._control is not None:
            with contextlib.suppress(SandboxError):  # whoever wants a worker will be told
                self._await_zygote()  # it starts up on a core of its own
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        before = affinity.cores()
        try:
            with affinity.own_core() as core:
                spare = [self._spare[1].pid] if self._spare is not None else []
                affinity.stay([0, self._zygote, *spare], core)
                yield
        finally:
            affinity.stay([0, self._zygote], before)
            torch.set_num_threads(threads)

    def prepare(self, limits: Limits) -> None:
        """Have a worker ready, so that the next one with these limits need not be waited for."""
        if self._spare is None:
            self._spare = limits, self._jailed(limits)

    def intact(self) -> bool:
        """Whether the zygote has lived since the last call of this. Where it was killed, its workers went with it, and that they
        gave no answer says nothing of their code; a clean one is started."""
        if self.tier == "D":
            return True
        was_replaced, self._known = self._known != self._zygote, self._zygote
        if self._zygote_lives():
            return not was_replaced
        with self._lock:
            self._end_zygote()
            self._spawn_zygote()
            self._known = self._zygote
        return False

    def _zygote_lives(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        try:
            return os.waitid(os.P_PID, self._zygote, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def _jailed(self, limits: Limits | None) -> Worker:
        with self._lock:
            tiers = [self.tier] if self.tier else list(jail.TIERS)
            for tier in tiers:
                try:
                    worker = Worker(self._open(tier, limits or Limits()), limits or Limits())
                except jail.Refused as refusal:
                    self.refusals.append(f"{tier}: {refusal}")
                    continue
                self.tier, self.layers = tier, worker.layers
                break
            else:
                raise SandboxError("isolation cannot be had here: " + "; ".join(self.refusals))
        return worker

    def _open(self, tier: str, limits: Limits) -> _Connection:
        ours, theirs = socket.socketpair()
        read_end, write_end = os.pipe()
        folder = self._folder() if limits.files and tier != "A" else None  # in tier A each worker has a /tmp of its own
        if tier == "D":
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "grader.sandbox.worker",
                    str(theirs.fileno()),
                    str(limits.memory_mb),
                    str(limits.cpu_seconds),
                    folder or "",
                ],
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,
            )
            theirs.close()
            os.close(write_end)
            return _Connection(ours, read_end, process.pid, process=process, folder=folder)
        spec = {"tier": tier, "root": self._root, "memory_mb": limits.memory_mb, "cpu_seconds": limits.cpu_seconds}
        spec["folder"] = folder
        try:
            try:
                pid, status_socket, status = self._fork_worker(spec, theirs, write_end)
            except (OSError, ValueError, SandboxError):  # the zygote is gone, killed from outside: a clean one takes its place
                self._end_zygote()
                self._spawn_zygote()
                pid, status_socket, status = self._fork_worker(spec, theirs, write_end)
        except (OSError, ValueError, SandboxError) as error:
            ours.close()
            os.close(read_end)
            raise SandboxError(f"no worker was forked ({type(error).__name__}: {error})") from None
        finally:
            theirs.close()
            os.close(write_end)
        return _Connection(ours, read_end, pid, status=status, status_socket=status_socket, folder=folder)

    def _folder(self) -> str:
        """A folder that one worker may write to, whatever uid it has."""
        folder = tempfile.mkdtemp(prefix=f"{MOUNT_POINT}{os.getpid()}-files-")
        os.chmod(folder, 0o777)
        return folder

    def _fork_worker(self, spec: dict[str, Any], wired: socket.socket, output: int) -> tuple[int, socket.socket, Any]:
        """Ask the zygote for a worker: its process, and the channel on which its end will be told."""
        self._await_zygote()
        assert self._control is not None
        ours, theirs = socket.socketpair()
        descriptors = array.array("i", [wired.fileno(), output, theirs.fileno()])
        try:
            self._control.sendmsg([json.dumps(spec).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            theirs.close()
            ours.settimeout(HELLO_SECONDS)
            status = ours.makefile("rb")
            return json.loads(status.readline())["pid"], ours, status
        except (OSError, ValueError):
            ours.close()
            theirs.close()
            raise

    def _end_zygote(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        elif self._zygote:
            with contextlib.suppress(OSError):
                os.kill(self._zygote, signal.SIGKILL)
                os.waitpid(self._zygote, 0)
        self._zygote = 0

    def close(self) -> None:
        """End the zygote and with it all workers."""
        if self._spare is not None:
            self._spare[1].kill()
        self._end_zygote()
        shutil.rmtree(self._root, ignore_errors=True)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Connection(msgspec.Struct):
    """The trusted ends of one worker's channels."""

    socket: socket.socket
    output: int
    pid: int
    status: Any = None
    status_socket: Any = None
    process: Any = None
    folder: str | None = None  # that only this worker writes to; removed with it


class Worker:
    """One jailed process with one package. Every request has a deadline; a worker that breaks it is ended."""

    def __init__(self, connection: _Connection, limits: Limits) -> None:
        self._connection, self.limits, self.pid = connection, limits, connection.pid
        self.until = math.inf  # on `time.monotonic`: no request lasts longer, however much of `call_seconds` is left
        self._exit: int | None = None
        self._cpu_seconds = 0.0
        self._alive = True
        self._gone: WorkerGone | None = None
        self._forbidden: set[str] = set()
        self.refill()
        self.printed = bytearray()
        self.printed_bytes = 0
        self._pidfd, self._by_number = None, False
        if self.pid and connection.process is None:
            try:
                self._pidfd = os.pidfd_open(self.pid)
            except AttributeError:
                self._by_number = True
            except OSError as error:  # ended already, or a kernel that has no such call
                self._by_number = error.errno == errno.ENOSYS
        self._drain = threading.Thread(target=self._collect_output, daemon=True)
        self._drain.start()
        try:
            hello, _ = wire.receive(connection.socket, trusted=True, deadline=time.monotonic() + HELLO_SECONDS)
        except (EOFError, wire.WireError, wire.DeadlineError) as error:
            self.kill()
            said = self.output()[-300:]
            raise SandboxError(f"a worker did not come up ({type(error).__name__}, exit {self._exit}) {said}") from None
        if not isinstance(hello, wire.Hello) or hello.refused is not None:
            self.kill()
            raise jail.Refused(hello.refused if isinstance(hello, wire.Hello) else "no greeting")
        self.layers = hello.layers
        self._first_bytes = self._memory("VmSize")
        self._sent_bytes = 0

    def load(self, package: Package) -> None:
        """Send the files. Nothing of them runs before the first request."""
        self._forbidden = {call for calls in package.forbidden.values() for call in calls}
        try:
            wire.send(self._connection.socket, *package.load_message(), deadline=time.monotonic() + HELLO_SECONDS)
        except (OSError, wire.WireError, wire.DeadlineError) as error:
            self.kill()
            raise SandboxError(f"a worker did not take its files ({type(error).__name__})") from None

    def is_idle(self) -> bool:
        """Whether it still waits for what it is to do."""
        try:
            self._listen()
        except (OSError, EOFError, wire.WireError):
            return False
        return self._alive

    def refill(self) -> None:
        """A new test begins: the memory that its answers may take is whole again."""
        self._allowance = ANSWER_BYTES

    @property
    def alive(self) -> bool:
        """Whether requests can still be made."""
        return self._alive

    def is_up(self) -> bool:
        """Whether requests can be made, and its process has not ended meanwhile."""
        if not self._alive:
            return False
        if self._pidfd is None:
            return True
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return not poll.poll(0)

    def request(
        self, request: wire.Request, blob: wire.Blob, streams: dict[int, Stream]
    ) -> tuple[wire.Ok | wire.Raised, bytearray]:
        """One request and its answer, within `call_seconds` in all; raises `WorkerGone` otherwise."""
        if not self._alive:
            raise self._gone or WorkerGone("the code's process has already ended")
        deadline = min(time.monotonic() + self.limits.call_seconds, self.until)
        connection = self._connection.socket
        try:
            self._listen()
            self._sent_bytes += blob.size + blob.spread
            wire.send(connection, request, blob, deadline)
            while True:
                answer, data = wire.receive(connection, trusted=True, deadline=deadline, weigh=self._weigh)
                if isinstance(answer, wire.Pull):
                    self._answer_pull(answer, streams, deadline)
                elif isinstance(answer, wire.Ok | wire.Raised):
                    answer.used = [name for name in answer.used if name in self._forbidden]
                    return wire.clip(answer) if isinstance(answer, wire.Raised) else answer, data
                else:
                    raise wire.WireError("a second greeting")
        except wire.DeadlineError:
            raise self._end(self._late(deadline)) from None
        except wire.WireError as error:
            raise self.broken(str(error)) from None
        except (EOFError, ConnectionError):
            raise self._died() from None

    def _listen(self) -> None:
        """Nothing may have arrived before the question: an answer that was ready is none, and no time would be measured."""
        self._connection.socket.setblocking(False)
        try:
            if self._connection.socket.recv(1, socket.MSG_PEEK):
                raise wire.WireError("an answer before the question")
        except BlockingIOError:
            return
        raise EOFError

    def _weigh(self, header: int, blob: int) -> None:
        self._allowance -= header * HEADER_WEIGHT + blob
        if self._allowance < 0:
            raise wire.WireError("far too much in one test")

    def _late(self, deadline: float) -> WorkerGone:
        if self.printed_bytes > FLOOD_BYTES:
            return WorkerGone("the code printed without end and was stopped")
        if deadline == self.until:
            return WorkerHung("no answer before the time for the whole exercise was used up: an endless loop, or far too slow?")
        return WorkerHung(f"no answer within {self.limits.call_seconds:g} s: an endless loop, or far too slow?")

    def broken(self, reason: str) -> WorkerGone:
        """End a process that does not keep to the protocol."""
        return self._end(WorkerGone(f"the code's process sent something other than an answer: {reason}"))

    def _answer_pull(self, pull: wire.Pull, streams: dict[int, Stream], deadline: float) -> None:
        if pull.stream not in streams:
            raise wire.WireError("a stream that does not exist")
        blob = wire.Blob()
        try:
            item = wire.StreamItem(value=wire.encode(next(streams[pull.stream]), blob, strides=True))
        except StopIteration:
            item = wire.StreamItem(exhausted=True)
        wire.send(self._connection.socket, item, blob, deadline)

    def _end(self, gone: WorkerGone) -> WorkerGone:
        self.kill()
        self._gone = gone
        return gone

    def _died(self) -> WorkerGone:
        """The other end of the wire is closed: say how that came about."""
        ended = self._has_ended()
        self.kill()
        if self.printed_bytes > FLOOD_BYTES:
            sentence = "the code printed without end and was stopped"
        elif not ended and self._exit == -signal.SIGKILL:
            sentence = "the code closed its connection to the grader"
        elif self._exit is not None and self._exit < 0:
            sentence = f"the code's process was ended by {self._signal_name(-self._exit)}"
        else:
            sentence = f"the code ended its own process (exit code {self._exit}) instead of answering"
        return self._end(WorkerGone(sentence))

    def _has_ended(self) -> bool:
        if self._pidfd is not None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            return bool(poll.poll(DEATH_SECONDS * 1000))
        if self._connection.process is not None:
            try:
                self._connection.process.wait(DEATH_SECONDS)
            except subprocess.TimeoutExpired:
                return False
        return True

    def _signal_name(self, number: int) -> str:
        try:
            name = signal.Signals(number).name
        except ValueError:
            return f"signal {number}"
        if self._cpu_seconds > self.limits.cpu_seconds / 2 and name in ("SIGKILL", "SIGXCPU"):
            return f"{name} (out of CPU time)"
        why = {"SIGKILL": "out of memory?", "SIGSEGV": "a crash in native code"}.get(name)
        return f"{name} ({why})" if why else name

    def memory(self, field: str) -> int | None:
        """Bytes of virtual memory, `VmSize` now or `VmPeak` at its highest so far, read from the kernel; None without /proc."""
        found = self._memory(field)
        if found is None and self._first_bytes is not None:  # its main thread has left, or all of it
            raise self._end(WorkerGone("the code ended its own process while its memory was measured"))
        return found

    def explained_memory(self) -> int | None:
        """`VmSize` as far as it can be explained by what the process had at first and was sent since: memory that code took
        beforehand, to give it back while it is measured, does not count as having been there."""
        found = self.memory("VmSize")
        if found is None or self._first_bytes is None:
            return found
        return min(found, self._first_bytes + self._sent_bytes + HOARD_BYTES)

    def cpu_time(self) -> float | None:
        """Seconds of CPU time of the whole process so far, all its threads included, those that have ended too: read from the
        kernel, and nothing that the process does can turn it back. None where there is no such clock."""
        if sys.platform != "linux":
            return None
        try:
            return time.clock_gettime((~self.pid << 3) | 2)  # what clock_getcpuclockid() makes of a process's number
        except OSError:
            raise self._end(WorkerGone("the code ended its own process while its time was measured")) from None

    def _memory(self, field: str) -> int | None:
        try:
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith(f"{field}:"):
                    return int(line.split()[1]) << 10
        except OSError:
            pass
        return None

    def _collect_output(self) -> None:
        """Drain what the code prints, keep the beginning, and end a process that never stops printing."""
        cap = self.limits.output_kb << 10
        folder = self._connection.folder
        while True:
            try:
                if folder and not select.select([self._connection.output], [], [], FOLDER_SECONDS)[0]:
                    if _bytes_in(folder) > jail.TMP_BYTES:
                        self._signal_kill()
                    continue
                chunk = os.read(self._connection.output, 65536)
            except OSError:
                break
            if not chunk:
                break
            self.printed += chunk[: cap - len(self.printed)]
            self.printed_bytes += len(chunk)
            if self.printed_bytes > FLOOD_BYTES:
                self._signal_kill()
                break
        os.close(self._connection.output)

    def output(self) -> str:
        """What the code printed, cut at the limit."""
        text = bytes(self.printed).decode("utf-8", "replace")
        left = self.printed_bytes - len(self.printed)
        return text + (f"\n[... {left} more bytes]" if left else "")

    def _signal_kill(self) -> None:
        with contextlib.suppress(OSError):
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            elif self._by_number:
                os.kill(self.pid, signal.SIGKILL)
            elif self._connection.process is not None:
                os.killpg(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        """End the process, and all it may have started, for good. Safe to call twice."""
        if not self._alive:
            return
        self._alive = False
        self._signal_kill()
        connection = self._connection
        if connection.process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
            self._exit = connection.process.wait()
        elif connection.status is not None:
            with contextlib.suppress(OSError, ValueError):
                end = json.loads(connection.status.readline() or b"{}")
                self._exit, self._cpu_seconds = end.get("exit"), end.get("cpu_seconds", 0.0)
            connection.status.close()
            connection.status_socket.close()
        connection.socket.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        self._drain.join(1.0)
        if connection.folder:
            shutil.rmtree(connection.folder, ignore_errors=True)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
