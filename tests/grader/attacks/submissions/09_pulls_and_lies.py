"""Pulls more than there is, from streams that are over or not its own, and from two threads at once."""
import json
import os
import struct
import threading


class Scale:
    def __init__(self, size):
        pass


def count_up(stop):
    return [1]


def pull():
    header = json.dumps({"kind": "pull", "stream": 0}).encode()
    for _ in range(50):
        os.write(3, struct.pack("<4sIQ", b"ALW1", len(header), 0) + header)


def total(numbers):
    threads = [threading.Thread(target=pull) for _ in range(2)]
    for thread in threads:
        thread.start()
    return sum(numbers) + 1
