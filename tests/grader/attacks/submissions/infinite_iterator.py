"""Returns an iterator without end, and a generator that never gets to its first item."""
import itertools


def never():
    while True:
        pass
    yield


def repeat_kv(x, n_rep):
    return itertools.count() if n_rep == 2 else never()
