"""Announces tensors with negative, gigantic, fractional and overflowing shapes and offsets."""
import json
import os
import struct


def send(header, blob=b"", magic=b"ALW1"):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = struct.pack("<4sIQ", magic, len(data), len(blob)) + data + blob
    while data:
        data = data[os.write(3, data) :]


TAGS = [["float32", [-1], 0], ["float32", [2**62, 4], 0], ["float32", [0, 2**39, 2**39], 0], ["float32", [1.0], 0], ["float32", [True], 0],
        ["float32", [1], -64], ["float32", [1], 1], ["float32", [1], 2**70], ["float32", [1] * 17, 0], ["float32", 1, 0], ["double", [1], 0],
        ["float32", [1], 0, [1]], ["float32", [100], 0], [["float32"], [1], 0], {}, ["float32", [2**70, 0], 0], ["bool", [64], 0], ["float64", [1], 4096]]


def pick(choices, x, n_rep):
    return choices[int(x.double().abs().sum() * 1000 + n_rep) % len(choices)]


def repeat_kv(x, n_rep):
    send({"kind": "ok", "value": {"t": pick(TAGS, x, n_rep)}}, b"\x02" * 64)
    os._exit(0)
