"""Answers every question with as many bytes as a frame may have, of the right dtype."""
import json
import os
import struct


def send(header, blob=b"", magic=b"ALW1"):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = struct.pack("<4sIQ", magic, len(data), len(blob)) + data + blob
    while data:
        data = data[os.write(3, data) :]


def repeat_kv(x, n_rep):
    send({"kind": "ok", "value": {"t": ["float32", [60 << 20], 0]}}, bytes(240 << 20))
    os._exit(0)
