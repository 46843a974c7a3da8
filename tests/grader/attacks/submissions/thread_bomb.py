"""Starts as many threads as it can, with stacks as small as they can be."""
import threading
import time

threading.stack_size(32768)
count = 0


def repeat_kv(x, n_rep):
    global count
    for _ in range(100_000):
        try:
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        except (RuntimeError, MemoryError):
            break
        count += 1
    print("started", count, "threads")
    return x
