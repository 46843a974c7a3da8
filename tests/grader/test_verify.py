"""The suites are proven: every wheat passes, every chaff fails where it must and is named. And `verify` notices when they are not."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from grader.authoring.verify import Proof, proven, show, verify_course
from grader.course import Course, load_course

ROOT = Path(__file__).resolve().parents[2]
MANY = ("ex01_tokenizer", "ex10_multihead", "ex13_kv_cache", "ex15_generate")  # where more can go wrong
EXERCISES = [exercise.file for exercise in load_course(ROOT).exercises]


def proof_of(course: Course, name: str) -> Proof:
    jobs = 1 if "PYTEST_XDIST_WORKER" in os.environ else os.cpu_count() or 1  # there, other tests have the other cores
    exercises = [course.exercise(name)]
    return verify_course(course, exercises, jobs=jobs, seed=None, isolation="auto", console=Console(file=io.StringIO()))[0]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", EXERCISES)
def test_the_suite_is_proven(name: str, course: Course):
    proof = proof_of(course, name)
    assert proof.problems == []
    assert proof.wheats == proof.wheats_accepted >= 4
    assert proof.chaffs == proof.chaffs_rejected >= (16 if name in MANY else 10)
    assert proven([proof]), proof.unnamed


@pytest.mark.timeout(300)
def test_everything_that_is_wrong_is_said(tmp_path: Path):
    """A course with one fault of each kind."""
    root = tmp_path / "course"
    for name in ("exercises", "solutions", "tests/public", "tests/hidden"):
        (root / name).mkdir(parents=True)
    (root / "course.toml").write_text(
        '[course]\nname = "Small"\nschema = 1\n\n[[exercise]]\nnumber = 6\nfile = "ex06_double"\ntitle = "Double"\npoints = 2\nnames = ["double"]\n'
    )
    source = '"""Double."""\n\n\ndef double(x):\n    """Twice x."""\n    # BEGIN SOLUTION\n    return 2 * x\n    # END SOLUTION\n'
    (root / "solutions/ex06_double.py").write_text(source)
    shutil.copy(ROOT / "exercises/config.py", root / "exercises/config.py")
    (root / "tests/hidden/test_ex06_double.py").write_text(
        "from grader.suite import assert_close, points, randn\n\n\n"
        '@points(1, "numerics")\ndef test_doubled(learner, reference):\n    """Twice the input."""\n'
        "    x = randn(2, 3)\n    assert_close(learner.double(x), reference.double(x))\n\n\n"
        '@points(1, "shape")\ndef test_weak(learner):\n    """Whatever comes back is fine."""\n    learner.double(randn(2, 3))\n'
    )
    wheats, chaffs = root / "solutions/wheats/ex06_double", root / "solutions/chaffs/ex06_double"
    wheats.mkdir(parents=True)
    chaffs.mkdir(parents=True)
    (wheats / "broken.py").write_text('"""Not right at all."""\n\n\ndef double(x):\n    return x\n')
    hint = '"""Is that twice?"""\n\nCATEGORY = "{}"\n\n\ndef double(x):\n    return {}\n'
    (chaffs / "thrice.py").write_text(hint.format("numerics", "3 * x"))
    (chaffs / "same_as_thrice.py").write_text(hint.format("numerics", "x + x + x"))
    (chaffs / "right.py").write_text(hint.format("numerics", "x + x"))
    (chaffs / "elsewhere.py").write_text(hint.format("shape", "5 * x"))
    course = load_course(root)
    proof = proof_of(course, "ex06_double")
    told = "\n".join(proof.problems)
    for expected in (
        "wheat broken: 1 of 2 points",
        "chaff right: must fail in numerics, fails in nothing",
        "chaff elsewhere: must fail in shape, fails in numerics",
        "careless returns_none: 1 points, must be 0",
    ):
        assert expected in told, (expected, told)
    assert proof.unnamed[0].startswith("chaff right: the feedback does not name it") and len(proof.unnamed) == 3
    assert not proof.holds and not proven([proof]) and proof.chaffs_rejected == 2 and proof.chaffs_named == 1
    console = Console(file=io.StringIO(), width=120)
    show(console, [proof])
    assert "chaffs named" in console.file.getvalue() and "1 of 4" in console.file.getvalue()
    assert "Only 25% of the chaffs are named" in console.file.getvalue()
    show(console, [proof, proof])
    assert "2 of 8" in console.file.getvalue()
