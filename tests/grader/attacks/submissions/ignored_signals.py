"""Blocks and ignores every signal, then never answers."""
import signal

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))


def repeat_kv(x, n_rep):
    while True:
        signal.sigtimedwait(range(1, 65), 1)
