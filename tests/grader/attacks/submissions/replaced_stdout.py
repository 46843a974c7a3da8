"""Replaces the streams by objects that misbehave whenever they are touched."""
import sys


class Stream:
    encoding = "utf-8"

    def write(self, text):
        raise SystemExit(0)

    def flush(self):
        raise SystemExit(0)

    def __getattr__(self, name):
        raise KeyboardInterrupt


sys.stdout = sys.stderr = sys.__stdout__ = Stream()


def repeat_kv(x, n_rep):
    print("anything")
    return x
