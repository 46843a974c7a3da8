"""Answers with dictionaries whose keys are NaN, equal to each other, not hashable, tensors or objects."""
import json
import os
import struct


def send(header, blob=b"", magic=b"ALW1"):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = struct.pack("<4sIQ", magic, len(data), len(blob)) + data + blob
    while data:
        data = data[os.write(3, data) :]


KEYS = [[{"f": "nan"}], [1, 1.0, True], [[1]], [{"t": ["float32", [1], 0]}], [{"d": []}], [{"u": [[1]]}], [{"h": [1, "object", "x"]}], [None], [{"s": 0}]]


def pick(choices, x, n_rep):
    return choices[int(x.double().abs().sum() * 1000 + n_rep) % len(choices)]


def repeat_kv(x, n_rep):
    send({"kind": "ok", "value": {"d": [[key, 1] for key in pick(KEYS, x, n_rep)]}}, bytes(64))
    os._exit(0)
