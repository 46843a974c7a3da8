"""Announces a header of 4 GiB."""
import os
import struct


def repeat_kv(x, n_rep):
    os.write(3, struct.pack("<4sIQ", b"ALW1", 2**32 - 1, 0))
    return x
