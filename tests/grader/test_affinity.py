"""A sandbox keeps to a core of its own while a suite runs, and gives it back."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import torch

from grader.sandbox import affinity
from grader.sandbox.client import Limits, Package

pytestmark = pytest.mark.skipif(len(affinity.cores()) < 2, reason="there is only one core, or no telling which")
PACKAGE = Package(name="exercises", main="ex01_any", files={"ex01_any.py": b"def f():\n    return 1\n"})


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    """Locks of this test's own: another sandbox may be at work on this machine."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def cores_of(pid: int) -> frozenset[int]:
    return frozenset(os.sched_getaffinity(pid))


def test_nobody_gets_a_core_that_another_keeps():
    all_cores = affinity.cores()
    held = [affinity.own_core() for _ in all_cores]
    got = [one.__enter__() for one in held]
    assert all(len(one) == 1 for one in got) and frozenset().union(*got) == all_cores
    with affinity.own_core() as none_left:
        assert not none_left
    held[0].__exit__(None, None, None)
    with affinity.own_core() as again:
        assert again == got[0]
    for one in held[1:]:
        one.__exit__(None, None, None)


def test_what_stands_in_a_locks_place_is_left_alone(locks):
    for core in affinity.cores():
        path = Path(locks, f"attention-ladder-core-{os.getuid()}-{core}.lock")
        if core % 2:
            path.symlink_to(locks / "elsewhere")
        else:
            path.mkdir()
            (path / "something").write_text("mine")
    with affinity.own_core() as core:
        assert len(core) < 2  # and it has not failed
    assert not (locks / "elsewhere").exists()


def test_a_run_and_its_workers_share_a_core(sandbox, monkeypatch):
    before, threads = affinity.cores(), torch.get_num_threads()
    sandbox.worker(PACKAGE).kill()  # a zygote lives
    sandbox.prepare(Limits())
    with sandbox.one_core():
        mine = affinity.cores()
        workers = [sandbox.worker(PACKAGE, Limits()) for _ in range(2)]  # the one that was ready, and a new one
        assert len(mine) == 1 and torch.get_num_threads() == 1
        assert [cores_of(one.pid) for one in workers] == [mine, mine]
    for one in workers:
        one.kill()
    assert (affinity.cores(), cores_of(sandbox._zygote), torch.get_num_threads()) == (before, before, threads)
    with sandbox.one_core(), sandbox.one_core():  # one within the other, as nobody does on purpose
        assert affinity.cores() <= before
    assert affinity.cores() == before
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: (_ for _ in ()).throw(PermissionError("not here")))
    with sandbox.one_core():
        assert affinity.cores() == before
