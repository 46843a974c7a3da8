"""Stops its own process, so that it neither answers nor ends."""
import os
import signal


def repeat_kv(x, n_rep):
    os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        signal.pause()
