"""Reads address 0."""
import ctypes


def repeat_kv(x, n_rep):
    ctypes.string_at(0)
