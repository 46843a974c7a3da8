"""A hostile program that is run like a learner's, to measure what the sandbox really prevents on this host.

It is told where the secrets are (a real attacker would have to guess) and tries to reach them. What it could do is said in
words; an empty list is what makes results official.
"""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

from .client import Limits, Package, Sandbox, WorkerGone
from .remote import LearnerError, Remote, Session

ATTEMPTS = b"""
import ctypes, gc, os, platform, signal, socket, subprocess, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)


def read_file(target):
    return open(target["secret"]).read() == target["content"]

def list_folder(target):
    return bool(os.listdir(os.path.dirname(target["secret"])))

def write_file(target):
    open(target["secret"] + ".probe", "w").close()
    return True

def change_file(target):
    os.truncate(target["secret"], 0)
    return True

def change_mode(target):
    try:
        os.chmod(target["secret"], 0o640)
    except OSError:
        os.utime(target["secret"], (1, 1))
    return True

def read_course(target):
    return bool(open(target["course"], "rb").read(1))

def see_processes(target):
    return os.path.exists("/proc/%d/environ" % target["pid"]) and bool(os.listdir("/proc/%d/fd" % target["pid"]))

def signal_grader(target):
    os.kill(target["pid"], 0)
    return True

def signal_all(target):
    os.kill(-1, 0)
    return True

def signal_by_socket_owner(target):
    import fcntl
    number = {"x86_64": 72, "aarch64": 25}.get(platform.machine())
    for high in (0, 1 << 32):  # a filter may look at bits that the kernel does not
        if number:
            libc.syscall(number, 3, ctypes.c_ulong(fcntl.F_SETOWN | high), target["pid"])
    return fcntl.fcntl(3, fcntl.F_GETOWN) == target["pid"]

def trace_grader(target):
    return libc.ptrace(0x4206, target["pid"], 0, 0) == 0

def read_grader_memory(target):
    buffer = ctypes.create_string_buffer(8)
    class Span(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
    local, remote = Span(ctypes.addressof(buffer), 8), Span(id(target), 8)
    return libc.process_vm_readv(target["pid"], ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) > 0

def connect_network(target):
    socket.create_connection(("127.0.0.1", target["port"]), 1).close()
    return True

def open_socket(target):
    socket.socket(socket.AF_UNIX).close()
    return True

def fork_process(target):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True

def run_program(target):
    return subprocess.run([sys.executable, "-c", ""], timeout=20).returncode == 0

def share_memory(target):
    segment = libc.shmget(0, 4096, 0o1600)
    libc.shmctl(segment, 0, None)  # it would outlive everybody
    return segment >= 0

def hold_descriptors(target):
    for descriptor in range(4, 256):
        try:
            os.fstat(descriptor)
            return True
        except OSError:
            pass
    return False

def see_tests(target):
    return any(name.startswith(("grader.suite", "grader.grading.materials", "_reference", "solutions", "tests", "_pytest")) for name in sys.modules)

def find_secret_in_memory(target):
    return any(type(value) is dict and target["marker"] in value for value in gc.get_objects())

def raise_limits(target):
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY:
        return True
    resource.setrlimit(resource.RLIMIT_AS, (hard * 2, hard * 2))
    return True

def outlive_grader(target):
    return libc.prctl(1, 0, 0, 0, 0) == 0

def start_threads(target):
    threading.stack_size(32768)
    try:
        for _ in range(3000):
            threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
    except RuntimeError:
        return False
    return True

def become_root(target):
    if os.getuid() == 0 and target["uid"] != 0:
        return True
    if os.getuid() == 0:
        return libc.unshare(0x20000) == 0
    os.setuid(0)
    return True

def enter_new_namespace(target):
    return libc.unshare(0x10000000) == 0


def attempt(name, target):
    try:
        return bool(globals()[name](target))
    except BaseException:
        return False
"""

WORDS = {
    "read_file": "read a file of the host",
    "list_folder": "list a folder of the host",
    "write_file": "write a file on the host",
    "change_file": "change a file of the host",
    "change_mode": "change the mode or times of a file of the host",
    "read_course": "read the course's solutions or tests",
    "see_processes": "look into the grader's process",
    "signal_grader": "send signals to the grader",
    "signal_all": "send signals to other processes",
    "signal_by_socket_owner": "have signals sent through a socket",
    "trace_grader": "trace the grader",
    "read_grader_memory": "read the grader's memory",
    "connect_network": "connect to the network",
    "open_socket": "open a socket",
    "fork_process": "fork a process",
    "run_program": "run another program",
    "share_memory": "make shared memory",
    "hold_descriptors": "use the grader's open files",
    "see_tests": "see the tests' modules",
    "find_secret_in_memory": "find the grader's secrets in its memory",
    "raise_limits": "raise its own limits",
    "outlive_grader": "outlive the grader",
    "start_threads": "start threads without end",
    "become_root": "become root",
    "enter_new_namespace": "make a namespace of its own",
}
MARKER = "attention-ladder-probe-secret"


def probe(sandbox: Sandbox, course_file: Path, limits: Limits | None = None) -> list[str]:
    """Everything that a hostile program could do in this sandbox, in words; empty when it could do nothing.

    `course_file` is a file that learner code must never read, such as a solution.
    """
    package = Package(main="probe", files={"probe.py": ATTEMPTS}, name="probe")
    secret = os.urandom(32).hex()
    keep = {MARKER: secret}  # what `find_secret_in_memory` looks for on this side of the fork
    could: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="attention-ladder-probe-") as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        os.chmod(folder, 0o777)  # only the sandbox stands between the probe and this file, not the file's mode
        file = Path(folder, "secret")
        file.write_text(keep[MARKER])
        file.chmod(0o666)
        target = {
            "secret": str(file),
            "content": secret,
            "course": str(course_file),
            "pid": os.getpid(),
            "uid": os.getuid(),
            "port": server.getsockname()[1],
            "marker": MARKER,
        }
        worker = sandbox.worker(package, limits)
        try:
            attempt = Remote(Session(lambda: worker)).attempt
            for name, words in WORDS.items():
                try:
                    if attempt(name, target) is True:
                        could.append(words)
                except (WorkerGone, LearnerError):  # the attempt ended the probe itself: it has failed
                    worker.kill()
                    worker = sandbox.worker(package, limits)
            if (Path(folder, "secret.probe").exists() or file.read_text() != secret) and WORDS["write_file"] not in could:
                could.append(WORDS["write_file"])
        finally:
            worker.kill()
    return could
