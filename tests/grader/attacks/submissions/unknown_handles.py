"""Answers with references to objects that do not exist, with numbers that no object has."""
import json
import os
import struct


def send(header, blob=b"", magic=b"ALW1"):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = struct.pack("<4sIQ", magic, len(data), len(blob)) + data + blob
    while data:
        data = data[os.write(3, data) :]


NUMBERS = [10**6, -1, 0, 2**62, 2**63, 10**30, True, 1.5, None, "1"]


def pick(choices, x, n_rep):
    return choices[int(x.double().abs().sum() * 1000 + n_rep) % len(choices)]


def repeat_kv(x, n_rep):
    number = pick(NUMBERS, x, n_rep)
    kind = pick(("module", "iterator", "object", "function"), x, n_rep)
    send({"kind": "ok", "value": {"h": [number, kind, "Tensor" * 30]}})
    os._exit(0)
