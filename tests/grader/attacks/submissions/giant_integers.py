"""Answers with integers that are too long to be printed, to be a float or to be sent back."""
import json
import os
import struct


def send(header, blob=b"", magic=b"ALW1"):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = struct.pack("<4sIQ", magic, len(data), len(blob)) + data + blob
    while data:
        data = data[os.write(3, data) :]


NUMBERS = ["0x" + "f" * 4000, "-0x" + "f" * 4096, "0x" + "f" * 100_000, "1_0", "  0x1 ", "0b1", "", "x"]


def pick(choices, x, n_rep):
    return choices[int(x.double().abs().sum() * 1000 + n_rep) % len(choices)]


def repeat_kv(x, n_rep):
    send({"kind": "ok", "value": {"i": pick(NUMBERS, x, n_rep)}})
    os._exit(0)
