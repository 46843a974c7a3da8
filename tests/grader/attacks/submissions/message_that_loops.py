"""Raises an exception whose text never ends."""


class Endless(Exception):
    def __str__(self):
        while True:
            pass


def repeat_kv(x, n_rep):
    raise Endless
