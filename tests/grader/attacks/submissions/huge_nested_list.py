"""Returns a million elements in nested lists."""


def repeat_kv(x, n_rep):
    return [[[0] * 100 for _ in range(100)] for _ in range(100)]
