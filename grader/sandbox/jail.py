"""Locks the current process up, before the first byte of learner code is read. Linux only; runs no learner code itself.

Layers, strongest first: namespaces with a private root (no files, processes, network or IPC of the host), Landlock (only named
paths can be opened), seccomp (threads yes; processes, sockets, tracing, signals to others no), rlimits, no capabilities, no new
privileges, and another uid where the caller is root. A layer that cannot be had raises `Refused`; the caller drops a tier.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from pathlib import Path

try:
    import pyseccomp
except Exception:  # the library or the kernel interface is missing: tiers A and B are refused, C still works
    pyseccomp = None

TIERS = ("A", "B", "C", "D")
NOBODY = 65534

CLONE_FLAGS = {"mount": 0x20000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x8000000, "uts": 0x4000000, "cgroup": 0x2000000}
CLONE_NEWUSER = 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_NOATIME, MS_NODIRATIME = 1, 2, 4, 8, 32, 1024, 2048
MS_BIND, MS_REC, MS_PRIVATE, MS_RELATIME, MS_STRICTATIME = 0x1000, 0x4000, 0x40000, 0x200000, 0x1000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 4, 24, 38, 47
SIGKILL = 9
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_LANDLOCK = (444, 445, 446)  # the same on every architecture: create_ruleset, add_rule, restrict_self
TMP_BYTES = 64 << 20
MAX_THREADS = 512  # on top of what the user already runs

libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """A layer cannot be had on this host; `str` says which and why."""


def _check(result: int, what: str) -> int:
    if result < 0:
        raise Refused(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)


def readable_paths() -> list[str]:
    """What Python and torch need to load libraries and modules lazily: the interpreter, its packages, the system's libraries."""
    wanted = ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache"]
    wanted += [sys.prefix, sys.base_prefix, *(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))]
    paths = []
    for path in wanted:
        for one in (os.path.realpath(path), path):  # also as Python knows it: a venv may be reached through a link
            if os.path.lexists(one) and one not in paths and not one.startswith("/usr/"):
                paths.append(one)
    return [path for path in paths if not any(path != other and path.startswith(other + "/") for other in paths)]


def nobody_can_read(paths: list[str]) -> bool:
    """Whether a process of another uid can reach these paths on the host's file system."""
    for path in paths:
        for part in [Path(path), *Path(path).parents]:
            mode = part.stat().st_mode
            if not mode & (0o001 if part.is_dir() else 0o004):
                return False
    return True


# --- namespaces and the private root ------------------------------------------------------------------------------------


def enter_namespaces() -> list[str]:
    """Unshare everything; the next fork is process 1 of the new pid namespace."""
    uid, gid, flags = os.geteuid(), os.getegid(), 0
    for flag in CLONE_FLAGS.values():
        flags |= flag
    _check(libc.unshare(flags | (CLONE_NEWUSER if uid else 0)), "namespaces")
    if uid:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            try:
                Path(f"/proc/self/{name}").write_text(text)
            except OSError as error:
                raise Refused(f"namespaces: {name}: {error.strerror}") from None
    return ["namespaces"]


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [text.encode() if text else None for text in (source, target, kind, data)]
    _check(libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), f"private root: mount {target}")


def _locked_flags(path: str) -> int:
    """The flags of the mount that holds `path` which an ordinary user must not take away when binding it again."""
    found = os.statvfs(path).f_flag
    access = MS_NOATIME if found & os.ST_NOATIME else MS_RELATIME if found & os.ST_RELATIME else MS_STRICTATIME
    return access | (MS_NOEXEC if found & os.ST_NOEXEC else 0) | (MS_NODIRATIME if found & os.ST_NODIRATIME else 0)


def private_root(root: str, readable: list[str]) -> list[str]:
    """Make `root` (an empty folder) the file system's root: `readable` paths read-only, an empty small /tmp, three devices."""
    _mount(None, "/", None, MS_PRIVATE | MS_REC)
    _mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,nr_inodes=4096,mode=755")
    os.mkdir(f"{root}/tmp")  # before the paths: the course, and Python with it, may lie in /tmp
    _mount("tmpfs", f"{root}/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, f"size={TMP_BYTES},nr_inodes=4096,mode=1777")
    for path in readable:
        target = root + path
        if (real := os.path.realpath(path)) != path:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.symlink(real, target)
            continue
        if os.path.isdir(path):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            Path(target).touch()
        _mount(path, target, None, MS_BIND | MS_REC)
        _mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | _locked_flags(path))
    for name in ("dev", "old"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    for name in ("null", "zero", "urandom"):
        Path(f"{root}/dev/{name}").touch()
        _mount(f"/dev/{name}", f"{root}/dev/{name}", None, MS_BIND)
    number = SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise Refused(f"private root: not supported on {os.uname().machine}")
    _check(libc.syscall(number, root.encode(), f"{root}/old".encode()), "private root: pivot_root")
    os.chdir("/")
    _check(libc.umount2(b"/old", 2), "private root: umount")
    os.rmdir("/old")
    _mount(None, "/", None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)
    return ["private root"]


# --- Landlock -----------------------------------------------------------------------------------------------------------


def landlock(readable: list[str], writable: list[str]) -> list[str]:
    """Nothing but these paths can be opened from here on, by this process or its threads."""
    create, add, restrict = SYS_LANDLOCK
    version = libc.syscall(create, None, ctypes.c_size_t(0), 1)
    if version < 1:
        raise Refused(f"landlock: {os.strerror(ctypes.get_errno())}")
    rights = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    network = 3 if version >= 4 else 0  # bind and connect over TCP
    scopes = 3 if version >= 6 else 0  # abstract sockets, signals
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _check(libc.syscall(create, struct.pack("<QQQ", rights, network, scopes), ctypes.c_size_t(size), 0), "landlock")
    execute, write_file, read_file, read_dir, truncate = 1, 2, 4, 8, 1 << 14
    for paths, allowed in ((readable, execute | read_file | read_dir), (writable, rights & ~execute)):
        for path in paths:
            try:
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            access = allowed if os.path.isdir(path) else allowed & (execute | write_file | read_file | truncate) & rights
            _check(libc.syscall(add, ruleset, 1, struct.pack("<Qi", access, descriptor), 0), f"landlock: {path}")
            os.close(descriptor)
    _check(libc.syscall(restrict, ruleset, 0), "landlock")
    os.close(ruleset)
    return [f"landlock (ABI {version})"]


# --- seccomp ------------------------------------------------------------------------------------------------------------

DENIED = """
socket socketpair connect bind listen accept accept4 ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd
pidfd_open pidfd_send_signal kcmp mount umount2 pivot_root chroot unshare setns bpf perf_event_open userfaultfd io_uring_setup
io_uring_enter io_uring_register keyctl add_key request_key memfd_create memfd_secret shmget shmat shmctl msgget msgsnd msgrcv
semget semop semctl mq_open init_module finit_module delete_module kexec_load kexec_file_load open_by_handle_at
name_to_handle_at fsopen fsmount fspick fsconfig move_mount open_tree mount_setattr fork vfork execve execveat personality
setpriority ioprio_set sched_setaffinity sched_setscheduler sched_setparam sched_setattr seccomp tkill rt_sigqueueinfo
rt_tgsigqueueinfo landlock_create_ruleset landlock_restrict_self quotactl acct swapon swapoff reboot settimeofday clock_settime
adjtimex clock_adjtime mknod mknodat fanotify_init inotify_init inotify_init1 syslog nfsservctl lookup_dcookie vhangup
modify_ldt iopl ioperm set_mempolicy mbind move_pages migrate_pages
chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat truncate sync syncfs
setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
setuid setreuid setresuid setfsuid setgid setregid setresgid setfsgid setgroups
""".split()
NEW_CALLS = range(450, 600)  # whatever a newer kernel can do besides: unknown here
CLONE_THREAD = 0x10000
FCNTL_COMMANDS = (8, 10, 15, 1024, 1026)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: signals to others; F_SETLEASE, F_NOTIFY: their files
IOCTLS = (
    *(0x8901, 0x8902, 0x5412),  # FIOSETOWN, SIOCSPGRP: signals to others through a socket's owner; TIOCSTI: keys on a terminal
    *(
        0x40086602,
        0x40046602,
        0x401C5820,
    ),  # FS_IOC_SETFLAGS, its 32-bit twin, FS_IOC_FSSETXATTR: flags of files that were only read
)
PRCTL_OPTIONS = (PR_SET_PDEATHSIG, PR_SET_DUMPABLE)  # the worker dies with its supervisor, whatever its code wants
LOW = 0xFFFFFFFF  # the kernel looks at so much of an int, and a filter that looked at more could be passed by


def seccomp() -> list[str]:
    """Threads may be made; processes, sockets, tracing and signals to other processes may not."""
    if pyseccomp is None:
        raise Refused("seccomp: libseccomp or pyseccomp is missing")
    try:
        filter_ = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
        refuse = pyseccomp.ERRNO(1)
        for name in DENIED:
            try:
                filter_.add_rule(refuse, name)
            except (OSError, ValueError):
                continue  # this kernel or architecture has no such call
        filter_.add_rule(pyseccomp.ERRNO(38), "clone3")  # its flags are behind a pointer; glibc falls back to clone
        filter_.add_rule(refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, CLONE_THREAD, 0))
        for name in ("kill", "tgkill"):
            filter_.add_rule(refuse, name, pyseccomp.Arg(0, pyseccomp.NE, os.getpid()))
        filter_.add_rule(refuse, "prlimit64", pyseccomp.Arg(0, pyseccomp.NE, 0))
        for name, place, values in (("fcntl", 1, FCNTL_COMMANDS), ("ioctl", 1, IOCTLS), ("prctl", 0, PRCTL_OPTIONS)):
            for value in values:
                filter_.add_rule(refuse, name, pyseccomp.Arg(place, pyseccomp.MASKED_EQ, LOW, value))
        for number in NEW_CALLS:
            filter_.add_rule(pyseccomp.ERRNO(38), number)
        filter_.load()
    except (OSError, ValueError) as error:
        raise Refused(f"seccomp: {error}") from None
    return ["seccomp"]


# --- limits and privileges ------------------------------------------------------------------------------------------------


def address_space() -> int:
    """Bytes of virtual memory that this process has now; 0 where that cannot be read."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return 0


def tasks_of(uid: int) -> int:
    """Processes and threads that a user has now, as far as they can be seen."""
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid == uid:
                count += sum(1 for _ in (folder / "task").iterdir())
        except OSError:
            continue
    return count


def limit_resources(base: int, memory_mb: int, cpu_seconds: int, tasks: int) -> list[str]:
    """Cap what the process can take on top of `base`, the bytes that a loaded torch already has, and of `tasks`, the user's."""
    limits = [
        (resource.RLIMIT_AS, base + (memory_mb << 20) if base else resource.RLIM_INFINITY),
        (resource.RLIMIT_NPROC, tasks + MAX_THREADS),
        (resource.RLIMIT_FSIZE, TMP_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_MEMLOCK, 0),
    ]
    for which, wanted in limits:
        hard = resource.getrlimit(which)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard) if wanted != resource.RLIM_INFINITY else hard
        try:
            resource.setrlimit(which, (value, value))
        except (OSError, ValueError) as error:
            if sys.platform == "linux":
                raise Refused(f"rlimits: {error}") from None
    return ["rlimits"]


def drop_privileges(change_uid: bool) -> list[str]:
    """No capabilities, no new ones by any means, and uid nobody where that is possible and asked for."""
    layers = ["no privileges"]
    if change_uid and os.geteuid() == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        except OSError as error:
            raise Refused(f"uid: {error.strerror}") from None
        layers.append("uid nobody")
    elif (
        os.geteuid() == 0
    ):  # only root can read what Python and torch are loaded from; but nobody is limited in threads, root is not
        os.setresuid(NOBODY, -1, -1)
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, 4, 0, 0, 0)
    _check(libc.capset(struct.pack("<Ii", 0x20080522, 0), bytes(24)), "capabilities")
    _check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    return layers
