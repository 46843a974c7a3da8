"""Returns a million elements in nested lists."""


def repeat_kv(x, n_rep):
    return [[[None] * 100 for _ in range(100)] for _ in range(100)] if n_rep == 2 else [0] * (10**6 if n_rep == 4 else 1)
