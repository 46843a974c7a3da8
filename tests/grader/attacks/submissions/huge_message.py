"""Raises an exception with a text of 100 MB, and causes without end."""


def repeat_kv(x, n_rep):
    error = ValueError("x" * (100 << 20))
    error.__cause__ = error.__context__ = error
    error.__notes__ = ["n_rep"] * 1000
    raise ExceptionGroup("group" * 10000, [error] * 1000)
