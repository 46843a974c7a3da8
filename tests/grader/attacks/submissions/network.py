"""Talks to the world: TCP, UDP, unix sockets by path and abstract, netlink, raw, and as a server."""
import socket

OPEN = []
KINDS = [(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 22)), (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 53)),
         (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 22)), (socket.AF_UNIX, socket.SOCK_STREAM, "\0@MARK@"),
         (socket.AF_UNIX, socket.SOCK_DGRAM, "/tmp/@MARK@.socket"), (socket.AF_NETLINK, socket.SOCK_RAW, (0, 0)),
         (socket.AF_INET, socket.SOCK_RAW, ("127.0.0.1", 0)), (socket.AF_PACKET, socket.SOCK_RAW, ("lo", 0)), (socket.AF_VSOCK, socket.SOCK_STREAM, (2, 1))]


def repeat_kv(x, n_rep):
    for family, kind, address in KINDS:
        for action in ("bind", "connect"):
            try:
                one = socket.socket(family, kind)
                OPEN.append(one)
                print("opened", family, kind)
                getattr(one, action)(address)
            except OSError:
                pass
    try:
        socket.socketpair()
        print("opened a pair")
    except OSError:
        pass
    return x
