"""The untrusted side's loop: receives a package and requests, answers them, knows nothing else.

Runs learner code, always in a process of its own; nothing here is trusted by anyone. Started by the zygote (tiers A to C) in a
forked child, or as `python -m grader.sandbox.worker FD` (tier D).
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, NoReturn

from . import wire
from .executor import Executor


def warm_up() -> None:
    """Touch what every exercise uses, so that a forked worker finds it loaded. One thread: a forked OpenMP pool hangs."""
    import torch.nn.functional

    torch.set_num_threads(1)
    for name in ("jaxtyping", "regex"):
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    x = torch.ones(2, 3, requires_grad=True)
    torch.autograd.grad((torch.nn.Linear(3, 2)(x).softmax(-1) @ x).sum(), [x])


def serve(connection: socket.socket, folder: str | None = None) -> NoReturn:
    """Answer requests until the trusted side hangs up. Temporary files go to `folder`, if one is given."""
    os.environ.clear()
    if folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
    sys.argv = [""]
    sys.dont_write_bytecode = True
    sys.path[:] = [
        path for path in sys.path if path.endswith((".zip", "site-packages", "dist-packages", "lib-dynload")) or _is_library(path)
    ]
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    message, blob = wire.receive(connection, trusted=False)
    files = {name: data.numpy().tobytes() for name, data in wire.Decoder(blob).decode(message.files).items()}

    def pull(stream: int) -> Iterator[Any]:
        while True:
            wire.send(connection, wire.Pull(stream))
            item, blob = wire.receive(connection, trusted=False)
            if item.exhausted:
                return
            yield wire.Decoder(blob, strides=True).decode(item.value)

    executor = Executor(message, files)
    executor.program.install()
    while True:
        try:
            request, blob = wire.receive(connection, trusted=False)
        except EOFError:
            os._exit(0)
        answer, parts = executor.handle(request, blob, pull)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:  # learner code may have replaced or closed it
                pass
        try:
            wire.send(connection, answer, parts)
        except (wire.WireError, TypeError, ValueError) as error:  # too large to send, or no plain data after all
            wire.send(connection, executor.describe(error))
        del request, blob, answer, parts  # their memory is not the next call's


def _is_library(path: str) -> bool:
    return path.startswith((sys.base_prefix + os.sep, sys.prefix + os.sep)) and os.path.basename(path).startswith("python")


def main() -> NoReturn:
    """Tier D: this process was started afresh and holds nothing but the socket."""
    from . import jail

    os.dup2(int(sys.argv[1]), 3)
    os.closerange(4, 65536)
    connection = socket.socket(fileno=3)
    memory_mb, cpu_seconds, folder = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    warm_up()
    layers = ["separate process"]
    if sys.platform == "linux":
        layers += jail.limit_resources(jail.address_space(), memory_mb, cpu_seconds, jail.tasks_of(os.getuid()))
    wire.send(connection, wire.Hello(layers))
    serve(connection, folder or None)


if __name__ == "__main__":
    main()
