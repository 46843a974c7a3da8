"""Ends itself by signals."""
import os
import signal


def repeat_kv(x, n_rep):
    if n_rep == 4:
        os.abort()
    os.kill(os.getpid(), signal.SIGKILL if n_rep == 2 else signal.SIGTERM)
    return x
