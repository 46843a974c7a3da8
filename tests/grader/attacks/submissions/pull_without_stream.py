"""Asks for the items of streams that do not exist."""
import json
import os
import struct


def send(header, blob=b"", magic=b"ALW1"):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = struct.pack("<4sIQ", magic, len(data), len(blob)) + data + blob
    while data:
        data = data[os.write(3, data) :]


def repeat_kv(x, n_rep):
    send({"kind": "pull", "stream": {2: -1, 4: 2**70}.get(n_rep, 0)})
    return x
