"""Hostile submissions, graded for real in tiers A and B: they earn nothing, break nothing, and leave nothing behind."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "submissions"
FILES = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", FILES)
def test_attack(arena, name):
    exercise = "09" if name.startswith("09") else "06"
    t = time.time()
    r = arena.grade((FOLDER / f"{name}.py").read_text(), exercise)
    dt = time.time() - t
    info = dict(name=name, tier=arena.sandbox.tier, status=r.status, reason=r.reason, points=r.points, seconds=round(dt, 2),
        tests=[(x.outcome, x.id, (x.message or "")[:150], (x.detail or "")[-700:]) for x in r.tests], output=(r.output or "")[:1500])
    with open("/tmp/attacks.log", "a") as f:
        f.write(json.dumps(info) + "\n")
    assert r.status == "graded", r.reason
    assert r.points == 0
