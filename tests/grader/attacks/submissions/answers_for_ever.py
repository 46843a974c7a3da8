"""A thread keeps sending answers, asked or not."""
import json
import os
import struct


def send(header, blob=b"", magic=b"ALW1"):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = struct.pack("<4sIQ", magic, len(data), len(blob)) + data + blob
    while data:
        data = data[os.write(3, data) :]


import threading


def flood():
    while True:
        send({"kind": "ok", "value": None})


def repeat_kv(x, n_rep):
    threading.Thread(target=flood, daemon=True).start()
    return x
