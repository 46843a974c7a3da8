"""A thread throws exceptions into the worker's own loop while it waits for a question."""
import ctypes
import threading
import time

main = threading.main_thread().ident


def torment():
    while True:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(SystemExit))
        time.sleep(0.001)


def repeat_kv(x, n_rep):
    threading.Thread(target=torment, daemon=True).start()
    return x
