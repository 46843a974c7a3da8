"""Sends the first half of a frame and then nothing."""
import os
import struct
import time


def repeat_kv(x, n_rep):
    os.write(3, struct.pack("<4sIQ", b"ALW1", 100, 200 << 20) + b'{"kind":')
    time.sleep(60)
