"""Recurses without end, with and without a limit."""
import sys


def repeat_kv(x, n_rep):
    if n_rep == 2:
        sys.setrecursionlimit(10**9)
    return repeat_kv(x, n_rep)
