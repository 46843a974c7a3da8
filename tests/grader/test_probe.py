"""The hostile probe: it can do nothing in tiers A and B, and says honestly what it can do in C and D."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

from grader.sandbox import probe as probing
from grader.sandbox.client import Limits, Sandbox, SandboxError
from grader.sandbox.probe import ATTEMPTS, WORDS, probe

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tiers A to C need Linux")

ROOT = Path(__file__).resolve().parents[2]
SECRET = ROOT / "solutions" / "ex06_repeat_kv.py"
LIMITS = Limits(call_seconds=20, memory_mb=512)


@pytest.fixture(scope="module")
def sandboxes():
    """One sandbox per tier, started when it is first needed."""
    made: dict[str, Sandbox] = {}

    def sandbox(tier: str) -> Sandbox:
        if tier not in made:
            made[tier] = Sandbox(tier, start="spawn")
        return made[tier]

    yield sandbox
    for one in made.values():
        one.close()


@pytest.mark.parametrize("tier", ["A", "B"])
def test_nothing_can_be_done_in_the_tiers_that_count(sandboxes, tier):
    try:
        could = probe(sandboxes(tier), SECRET, LIMITS)
    except SandboxError as error:
        pytest.skip(f"tier {tier} cannot be had here: {error}")
    assert could == []


@pytest.mark.parametrize("tier", ["C", "D"])
def test_what_can_be_done_in_the_others_is_told(sandboxes, tier):
    could = probe(sandboxes(tier), SECRET, LIMITS)
    names = (
        "read_file",
        "write_file",
        "change_file",
        "open_socket",
        "connect_network",
        "fork_process",
        "run_program",
        "share_memory",
    )
    assert {WORDS[name] for name in names} <= set(could)  # the file and its folder are open to all
    assert set(could) <= set(WORDS.values()) and len(could) == len(set(could))


def test_every_attempt_has_its_words():
    defined = {node.name for node in ast.parse(ATTEMPTS).body if isinstance(node, ast.FunctionDef)}
    assert defined - {"attempt"} == set(WORDS)
    assert len(set(WORDS.values())) == len(WORDS)


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), 11)", "time.sleep(60)", "raise SystemExit"])
def test_an_attempt_that_ends_the_probe_has_failed_and_the_next_is_made(sandboxes, monkeypatch, ending):
    body = (
        f"import os, time\ndef attempt(name, target):\n    if name == 'first':\n        {ending}\n    return name == 'second'\n"
    )
    monkeypatch.setattr(probing, "ATTEMPTS", body.encode())
    monkeypatch.setattr(
        probing, "WORDS", {**WORDS, **dict.fromkeys(WORDS, "an old one"), "first": "the first", "second": "the second"}
    )
    assert probe(sandboxes("C"), SECRET, Limits(call_seconds=1.0)) == ["the second"]


def test_a_write_that_is_not_admitted_is_seen_from_outside(sandboxes, monkeypatch):
    """The file is looked at afterwards: the probe's own word is not all there is."""
    body = b"import os\ndef attempt(name, target):\n    open(target['secret'], 'w').write('changed')\n    return False\n"
    monkeypatch.setattr(probing, "ATTEMPTS", body)
    assert probe(sandboxes("C"), SECRET, LIMITS) == [WORDS["write_file"]]


def test_the_probe_leaves_nothing_behind(sandboxes, tmp_path, monkeypatch):
    sandbox = sandboxes("C")
    monkeypatch.setattr(probing.tempfile, "tempdir", str(tmp_path))
    segments = shared_memory()
    probe(sandbox, SECRET, LIMITS)
    assert os.listdir(tmp_path) == []
    assert shared_memory() == segments


def shared_memory() -> set[str]:
    """The shared memory segments of the host."""
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}
