"""Reports exceptions that were never raised: with escapes, markup, lone surrogates, huge texts and false lines."""
import json
import os
import struct


def send(header, blob=b"", magic=b"ALW1"):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = struct.pack("<4sIQ", magic, len(data), len(blob)) + data + blob
    while data:
        data = data[os.write(3, data) :]


def repeat_kv(x, n_rep):
    text = "\x1b[2J\x1b]0;owned\x07[bold red]<script>alert(1)</script>\u202e\u0000" + "A" * 200_000
    send({"kind": "raised", "type": text, "message": text, "bases": [text], "frames": [[text, 2**70, text], ["exercises/ex06_repeat_kv.py", -5, ""]],
          "used": [text] if n_rep == 2 else []})
    os._exit(0)
