"""Pulls from a stream that was never lent, as fast as it can, and reads no answers."""
import json
import os
import struct

header = json.dumps({"kind": "pull", "stream": 0}).encode()


def repeat_kv(x, n_rep):
    while True:
        os.write(3, (struct.pack("<4sIQ", b"ALW1", len(header), 0) + header) * 1000)
