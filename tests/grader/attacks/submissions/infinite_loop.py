"""Never answers."""


def repeat_kv(x, n_rep):
    while True:
        pass
