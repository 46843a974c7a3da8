"""A small course to attack, one sandbox per tier, and the checks that an attack left nothing behind."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from grader.grading.result import Result
    from grader.sandbox.client import Sandbox

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
MARK = "attention-ladder-attack"  # what hostile code puts into the names of the files that it tries to leave behind
PR_SET_CHILD_SUBREAPER = 36

COURSE = """
[course]
name = "Small"
schema = 1

[limits]
call_seconds = 0.8
exercise_seconds = 4.0
cpu_seconds = 20
memory_mb = 512
output_kb = 16
max_hangs = 1

[[exercise]]
number = 6
file = "ex06_repeat_kv"
title = "Repeat key and value heads"
points = 10
names = ["repeat_kv"]

[[exercise]]
number = 9
file = "ex09_stream"
title = "A module, a generator and a stream"
points = 10
names = ["Scale", "count_up", "total"]
limits = { exercise_seconds = 1.5 }

[[exercise]]
number = 10
file = "ex10_memory"
title = "No more memory than needed"
points = 10
names = ["double"]
"""

SUITE_06 = '''"""Grades the small 06."""
import pytest
from grader.suite import (assert_arguments_unchanged, assert_close, assert_equal, assert_shape, assert_value_error,
                          points, randn)


@points(1, "shape")
def test_shape(learner):
    """The head axis grows."""
    assert_shape(learner.repeat_kv(randn(2, 5, 3, 8), 4), [2, 5, 12, 8])


@points(4, "numerics")
@pytest.mark.parametrize("n_rep", [2, 5])
def test_values(learner, reference, n_rep):
    """Heads are repeated next to themselves."""
    x = randn(2, 5, 3, 7)
    assert_close(learner.repeat_kv(x, n_rep), reference.repeat_kv(x, n_rep))


@points(2, "gradients")
def test_gradients(learner, reference):
    """A head gets the sum of its copies' gradients."""
    x, g = randn(2, 5, 3, 7), randn(2, 5, 6, 7)
    mine, right = learner.repeat_kv.vjp(x, 2, cotangent=g), reference.repeat_kv.vjp(x, 2, cotangent=g)
    assert_close(mine.output, right.output)
    assert_close(mine.inputs[0], right.inputs[0], what="the gradient of x")


@points(2, "robustness")
def test_state(learner, reference):
    """x is left as it was, and so is a result."""
    x, y = randn(2, 5, 3, 7), randn(2, 5, 3, 7)
    assert_equal(assert_arguments_unchanged(learner.repeat_kv, x, 2), reference.repeat_kv(x, 2))
    kept = learner.repeat_kv.keep(x, 2)
    assert_equal(learner.repeat_kv(y, 2), reference.repeat_kv(y, 2))
    assert_equal(kept.fetch(), reference.repeat_kv(x, 2))


@points(1, "robustness")
def test_bad_n_rep(learner, reference):
    """n_rep < 1 is refused."""
    x = randn(2, 5, 3, 7)
    assert_equal(learner.repeat_kv(x, 1), reference.repeat_kv(x, 1))
    assert_value_error(learner.repeat_kv, x, 0, naming="n_rep")
'''

PUBLIC_06 = '''
"""Examples for the small 06."""
import torch
from grader.suite import assert_equal, points


@points(0, "numerics")
def test_example(learner):
    """Heads 1, 2 become 1, 1, 2, 2."""
    assert_equal(learner.repeat_kv(torch.tensor([[[[1], [2]]]]), 2), torch.tensor([[[[1], [1], [2], [2]]]]))
'''

SOLUTION_09 = '''
"""A module, a generator and a stream."""
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.register_buffer("offset", torch.zeros(size))

    def forward(self, x):
        return x * self.weight + self.offset


def count_up(stop):
    for number in range(stop):
        yield number


def total(numbers):
    return sum(numbers)
'''

SUITE_09 = '''
"""Grades the small 09."""
import torch
from grader.suite import Stream, assert_close, assert_equal, fail, points, randn


@points(3, "numerics")
def test_module(learner, reference):
    """The module scales, with the weights that it is given."""
    state = {"weight": randn(7), "offset": randn(7)}
    mine, right = learner.Scale(7), reference.Scale(7)
    mine.load_state_dict(state)
    right.load_state_dict(state)
    x = randn(3, 7)
    assert_close(mine(x), right(x))
    assert_close(mine.state_dict()["weight"] * 2, state["weight"] * 2)


@points(2, "gradients")
def test_module_gradients(learner, reference):
    """Gradients reach the weights."""
    x, g = randn(3, 7), randn(3, 7)
    mine, right = learner.Scale(7).vjp(x, cotangent=g), reference.Scale(7).vjp(x, cotangent=g)
    assert_close(mine.parameters["weight"], right.parameters["weight"])
    assert_close(mine.inputs[0], right.inputs[0])


@points(1, "shape")
def test_parameters(learner):
    """One parameter, one buffer."""
    module = learner.Scale(7)
    if {name: info.shape for name, info in module.parameters().items()} != {"weight": (7,)}:
        fail("the parameters are others")
    if {name: info.dtype for name, info in module.buffers().items()} != {"offset": torch.float32}:
        fail("the buffers are others")


@points(2, "numerics")
def test_generator(learner):
    """The generator counts and ends."""
    assert_equal(list(learner.count_up(4)), [0, 1, 2, 3])


@points(1, "numerics")
def test_sum_of_answers(learner):
    """What it yields can be calculated with."""
    if sum(number * 2 for number in learner.count_up(4)) != 12:
        fail("the sum is another")


@points(1, "robustness")
def test_stream(learner):
    """Every number is pulled once."""
    stream = Stream(range(5))
    assert_equal(learner.total(stream), 10)
    assert_equal(stream.pulled, 5)
'''


SOLUTION_10 = '''
"""Twice x."""


def double(x):
    return x * 2
'''

SUITE_10 = '''
"""Grades the small 10."""
from grader.suite import assert_equal, fail, points, randint


@points(10, "memory")
def test_memory(learner, reference, peak_memory):
    """Nothing is made but the result."""
    small, x = randint(0, 9, 3, 5).double(), randint(0, 9, 2048, 1024).double()
    assert_equal(learner.double(small), reference.double(small))
    grown = peak_memory(learner.double, x)
    assert_equal(grown.result.fetch(), reference.double(x))
    if grown > 1.5 * x.numel() * 8:
        fail("more is made than the result")
'''


@pytest.fixture(scope="session")
def small_course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a course with quick suites and small limits."""
    root = tmp_path_factory.mktemp("course")
    chaffs = [ROOT / "solutions" / "chaffs" / "ex06_repeat_kv" / f"{name}.py" for name in ("tiles_heads", "detaches")]
    contents = {
        "course.toml": COURSE,
        "solutions/ex06_repeat_kv.py": (ROOT / "solutions" / "ex06_repeat_kv.py").read_text(encoding="utf-8"),
        "solutions/ex09_stream.py": SOLUTION_09,
        "tests/hidden/test_ex06_repeat_kv.py": SUITE_06,
        "tests/public/test_ex06_repeat_kv.py": PUBLIC_06,
        "solutions/ex10_memory.py": SOLUTION_10,
        "tests/hidden/test_ex09_stream.py": SUITE_09,
        "tests/hidden/test_ex10_memory.py": SUITE_10,
        **{f"solutions/chaffs/ex06_repeat_kv/{path.name}": path.read_text(encoding="utf-8") for path in chaffs},
    }
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return root


@pytest.fixture(scope="session", params=["A", "B"])
def tier(request: pytest.FixtureRequest) -> str:
    """The isolation tier."""
    return request.param


@pytest.fixture(scope="session")
def sandboxes() -> Iterator[Callable[[str], Sandbox]]:
    """One sandbox per tier, started when it is first needed."""
    from grader.sandbox.client import Package, Sandbox, SandboxError

    made: dict[str, Sandbox] = {}
    os.environ["TOKEN_OF_THE_CALLER"] = MARK  # of the caller's: no worker may find it

    def sandbox(tier: str) -> Sandbox:
        if tier not in made:
            made[tier] = Sandbox(tier, start="spawn")
            try:
                made[tier].worker(Package(main="empty", files={"empty.py": b""})).kill()
            except SandboxError as error:
                pytest.skip(f"tier {tier} cannot be had here: {error}")
        return made[tier]

    yield sandbox
    os.environ.pop("TOKEN_OF_THE_CALLER")
    for one in made.values():
        one.close()


class Arena:
    """Grades one hostile file and looks at what it left behind."""

    def __init__(self, root: Path, sandbox: Sandbox, canary: Path) -> None:
        from grader.course import load_course
        from grader.grading.grade import Grader

        self.root, self.sandbox, self.canary = root, sandbox, canary
        self.grader = Grader(load_course(root), sandbox)

    def grade(self, source: str | bytes, exercise: str = "06", **options) -> Result:
        """The result of a submission that consists of one file; `@NAMES@` in it stand for what is secret or outside."""
        from grader.submission import Problem, SourceFile

        one = self.grader.course.exercise(exercise)
        told = {"CANARY": str(self.canary), "PID": str(os.getpid()), "ROOT": str(self.root), "MARK": MARK}
        for name, value in told.items():
            source = source.replace(f"@{name}@", value) if isinstance(source, str) else source
        content = source.encode() if isinstance(source, str) else source

        def files(name: str) -> SourceFile | Problem:
            if name == one.file:
                return SourceFile(name=name, content=content, place=f"{name}.py")
            return Problem(kind="missing", message="not there")

        return self.grader.grade(one, files, **options)

    def honest(self, exercise: str = "06") -> Result:
        """The result of the reference, handed in."""
        one = self.grader.course.exercise(exercise)
        return self.grade(self.grader.course.solution_path(one).read_bytes(), exercise)


@pytest.fixture(scope="session")
def arenas(
    small_course: Path, sandboxes: Callable[[str], Sandbox], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Arena]:
    """One arena per tier and course."""
    if sys.platform != "linux":
        pytest.skip("tiers A and B need Linux")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # an orphan of hostile code becomes a child of this process
    made: dict[tuple[str, Path], Arena] = {}

    def arena(tier: str, root: Path = small_course) -> Arena:
        if (tier, root) not in made:
            folder = Path(tempfile.mkdtemp(prefix="canary-", dir=tmp_path_factory.getbasetemp()))
            made[tier, root] = Arena(root, sandboxes(tier), folder / "canary.txt")
        return made[tier, root]

    return arena


@pytest.fixture
def arena(arenas: Callable[..., Arena], tier: str) -> Iterator[Arena]:
    """The small course in one tier; afterwards nothing outside may have changed and nobody may be left running."""
    yield from watched(arenas(tier))


@pytest.fixture
def real_arena(arenas: Callable[..., Arena], tier: str) -> Iterator[Arena]:
    """The real course in one tier, watched in the same way."""
    yield from watched(arenas(tier, ROOT))


def watched(arena: Arena) -> Iterator[Arena]:
    """An open invitation (a file and a folder that everybody may change), and a look at it afterwards."""
    folder = arena.canary.parent
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    arena.canary.write_text("untouched")
    folder.chmod(0o777)
    arena.canary.chmod(0o666)
    os.utime(arena.canary, (1e9, 1e9))
    before, was = descendants(), facts(arena.canary)
    yield arena
    assert arena.canary.read_text() == "untouched"
    assert facts(arena.canary) == was
    assert os.listdir(folder) == [arena.canary.name]
    for place in {Path(tempfile.gettempdir()), *map(Path, ("/tmp", "/var/tmp", "/dev/shm")), Path.cwd(), ROOT, arena.root}:
        if place.is_dir():
            assert not [name for name in os.listdir(place) if MARK in name]
    deadline = time.monotonic() + 5
    while left := descendants() - before:
        assert time.monotonic() < deadline, f"left running: {left}"
        time.sleep(0.02)


def facts(path: Path) -> tuple[int, ...]:
    """What nobody may change about a file, besides its content."""
    stat = path.stat()
    return stat.st_ino, stat.st_mode, stat.st_uid, stat.st_nlink, stat.st_mtime_ns


def descendants() -> set[int]:
    """The processes below this one that still run."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                state, parent = Path(f"/proc/{name}/stat").read_text().rpartition(") ")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                parents[int(name)] = int(parent)
    found, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found, grown = found | more, bool(more)
    return found - {os.getpid()}
