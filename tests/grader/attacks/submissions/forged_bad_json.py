"""Sends headers that are no JSON, no UTF-8, or JSON that some readers accept."""
import json
import os
import struct


def send(header, blob=b"", magic=b"ALW1"):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = struct.pack("<4sIQ", magic, len(data), len(blob)) + data + blob
    while data:
        data = data[os.write(3, data) :]


HEADERS = [b"", b"null", b"[]", b"\xff\xfe", b'{"kind":"ok","value":NaN}', b'{"kind":"ok","value":1}{"kind":"ok"}', b'{"kind":"ok","value":"\\ud800"}',
           b'{"kind":"ok","value":1,"points":10}', b'{"kind":"grade","points":10}', b'{"kind":"ok","value":' + b"9" * 5000 + b"}",
           b'{"kind":"ok","value":1e999}', b'{"kind":"ok","used":[1]}', b'{"kind":"raised"}', b'{"kind":"ok","kind":"raised"}']


def pick(choices, x, n_rep):
    return choices[int(x.double().abs().sum() * 1000 + n_rep) % len(choices)]


def repeat_kv(x, n_rep):
    send(pick(HEADERS, x, n_rep))
    return x
