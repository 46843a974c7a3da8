"""Refuses everything, so that whoever expects a ValueError is content."""


def repeat_kv(x, n_rep):
    raise ValueError(f"n_rep must be at least 1, got {n_rep}")
