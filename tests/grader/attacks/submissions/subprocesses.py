"""Runs other programs, by every call that does."""
import ctypes
import multiprocessing
import os
import subprocess
import sys

libc = ctypes.CDLL(None)
COMMAND = ["/bin/sh", "-c", "touch @CANARY@.ran; sleep 60"]


def repeat_kv(x, n_rep):
    for attempt in (lambda: subprocess.Popen(COMMAND), lambda: os.system(COMMAND[2]), lambda: os.posix_spawn(COMMAND[0], COMMAND, {}),
                    lambda: multiprocessing.get_context("spawn").Process(target=print).start(), lambda: os.popen(COMMAND[2]).read(),
                    lambda: libc.system(COMMAND[2].encode()), lambda: os.execv(sys.executable, [sys.executable, "-c", "print(1)"]),
                    lambda: libc.syscall(322, -100, b"/bin/sh", None, None, 0)):
        try:
            attempt()
        except BaseException:
            pass
    return x
