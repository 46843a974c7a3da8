"""Sends a frame byte by byte, each just in time for a limit that begins anew with every byte."""
import os
import struct
import time


def repeat_kv(x, n_rep):
    for byte in struct.pack("<4sIQ", b"ALW1", 10000, 0) + b" " * 10000:
        os.write(3, bytes([byte]))
        time.sleep(0.1)
