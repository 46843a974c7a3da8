"""A fork server that holds a warmed torch and no secrets: one jailed worker per request. Runs no learner code itself.

The trusted side forks it right after importing torch, before suites, references and seeds are loaded, or starts it afresh
(`python -m grader.sandbox.zygote FD`) where it already holds some. For each worker a supervisor is forked first, which makes
the namespaces, forks the worker as their process 1 and reports its exit.
"""

from __future__ import annotations

import array
import gc
import json
import os
import signal
import socket
import sys
from typing import Any, NamedTuple, NoReturn

from . import jail, wire, worker

WORKER_SOCKET = 3


class Host(NamedTuple):
    """What is found out once for all workers."""

    readable: list[str]  # paths that Python and torch load from
    open_to_all: bool  # another uid can read them, too
    base: int  # bytes of virtual memory before any learner code
    tasks: int  # processes and threads of the users that workers may run as


def main_loop(control: socket.socket) -> NoReturn:
    """Fork a worker for every request on `control`, a SEQPACKET socket, until the trusted side hangs up."""
    jail.die_with_parent()
    worker.warm_up()
    tasks = max(jail.tasks_of(os.getuid()), jail.tasks_of(jail.NOBODY))
    host = Host(jail.readable_paths(), jail.nobody_can_read(jail.readable_paths()), jail.address_space(), tasks)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trusted side's to handle
    control.send(b"ready")
    while True:
        data, ancillary, _, _ = control.recvmsg(65536, socket.CMSG_SPACE(12))
        if not data:
            os._exit(0)
        descriptors = array.array("i")
        descriptors.frombytes(ancillary[0][2][:12])
        try:
            pid = os.fork()
        except OSError:  # no room for another process: the trusted side hears that there is none
            pid = -1
        if pid == 0:
            try:
                control.close()
                _supervise(json.loads(data), *descriptors, host)
            finally:
                os._exit(70)
        for descriptor in descriptors:
            os.close(descriptor)
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _supervise(spec: dict[str, Any], connection: int, output: int, status: int, host: Host) -> None:
    """Fork the jailed worker and report how it ended. The supervisor itself runs nothing of the learner's."""
    jail.die_with_parent()
    tier = spec["tier"]
    layers: list[str] = []
    try:
        if tier == "A":
            layers = jail.enter_namespaces()
    except jail.Refused as refusal:
        wire.send(socket.socket(fileno=connection), wire.Hello([], refused=str(refusal)))
        os.write(status, b'{"pid": 0}\n{"exit": 0}\n')
        return
    pid = os.fork()
    if pid == 0:
        try:
            _become_worker(spec, tier, layers, connection, output, host)
        finally:
            os._exit(71)
    os.write(status, json.dumps({"pid": pid}).encode() + b"\n")
    os.close(connection)
    os.close(output)
    _, code, usage = os.wait4(pid, 0)
    end = {"exit": os.waitstatus_to_exitcode(code), "cpu_seconds": usage.ru_utime + usage.ru_stime}
    os.write(status, json.dumps(end).encode() + b"\n")


def _become_worker(spec: dict[str, Any], tier: str, layers: list[str], connection: int, output: int, host: Host) -> NoReturn:
    """Keep the wire and the output pipe, lose everything else, then serve."""
    jail.die_with_parent()
    os.setsid()
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    connection = os.dup(connection) if connection <= WORKER_SOCKET else connection
    output = os.dup(output) if output <= WORKER_SOCKET else output
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(connection, WORKER_SOCKET)
    os.closerange(WORKER_SOCKET + 1, 65536)
    wired = socket.socket(fileno=WORKER_SOCKET)
    try:
        if tier == "A":
            layers += jail.private_root(spec["root"], host.readable)
        else:
            os.chdir("/")
        layers += jail.limit_resources(host.base, spec["memory_mb"], spec["cpu_seconds"], host.tasks)
        layers += jail.drop_privileges(change_uid=tier == "A" or host.open_to_all)
        jail.die_with_parent()  # again: a change of uid clears it
        if tier in "AB":
            writable = ["/tmp", "/dev/null"] if tier == "A" else ["/dev/null", *filter(None, [spec["folder"]])]
            layers += jail.landlock([*host.readable, "/dev/urandom", "/dev/zero"], writable)
            layers += jail.seccomp()
    except jail.Refused as refusal:
        wire.send(wired, wire.Hello([], refused=str(refusal)))
        os._exit(0)
    wire.send(wired, wire.Hello(layers))
    worker.serve(wired, spec["folder"])


if __name__ == "__main__":
    main_loop(socket.socket(fileno=int(sys.argv[1])))
