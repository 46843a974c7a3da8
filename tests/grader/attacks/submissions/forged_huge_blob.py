"""Announces tensor bytes that no machine has."""
import os
import struct


def repeat_kv(x, n_rep):
    os.write(3, struct.pack("<4sIQ", b"ALW1", 2, 2**64 - 1) + b"{}")
    return x
