"""Undoes the order to die with its parent, and has its main thread leave while another stays."""
import ctypes
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
for option in (1, 1 | 1 << 40):
    if libc.syscall(157, ctypes.c_ulong(option), 0, 0, 0, 0) == 0:
        print("may outlive its parent")


def repeat_kv(x, n_rep):
    threading.Thread(target=time.sleep, args=(60,)).start()
    libc.syscall(60, 0)
