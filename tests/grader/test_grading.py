"""One submission through `Grader.grade`: scores, statuses, errors carried forward, keys, seeds, official or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from grader.course import load_course
from grader.grading import grade as grade_module
from grader.grading.grade import Grader
from grader.grading.materials import MaterialError, grader_hash, read_materials
from grader.grading.result import Result
from grader.sandbox.client import SandboxError
from grader.sandbox.remote import Local
from grader.submission import Problem, SourceFile
from grader.suite.resident import Resident
from tests.grader.small_course import BASE, DOUBLE, QUADRUPLE, TOP, TRIPLE, write_course

MISSING = Problem(kind="missing", message="there is no such file")


class Desk:
    """A course in a folder, a grader for it, and a submission as a table of texts."""

    def __init__(self, root: Path, sandbox, **options) -> None:
        self.root, self.sandbox, self.options = root, sandbox, options
        self.files: dict[str, str | bytes | Problem] = {BASE: DOUBLE, TOP: QUADRUPLE}

    def grader(self) -> Grader:
        return Grader(load_course(self.root), self.sandbox, **self.options)

    def file(self, name: str) -> SourceFile | Problem:
        found = self.files.get(name, MISSING)
        if isinstance(found, Problem):
            return found
        return SourceFile(name=name, content=found if isinstance(found, bytes) else found.encode(), place=f"{name}.py")

    def grade(self, number: int, **options) -> Result:
        grader = self.grader()
        return grader.grade(grader.course.exercise(number), self.file, **options)

    def key(self, number: int) -> str:
        grader = self.grader()
        return grader.key(grader.course.exercise(number), self.file)

    def change(self, name: str, old: str, new: str) -> None:
        path = self.root / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))


@pytest.fixture
def desk(tmp_path, sandbox) -> Desk:
    return Desk(write_course(tmp_path), sandbox)


def outcomes(result: Result) -> dict[str, str]:
    return {test.id.partition("::")[2]: test.outcome for test in result.tests}


# --- one result ---


def test_after_a_rehearsal_a_mistake_is_named_and_no_chaff_asked(desk, monkeypatch):
    desk.options["remember"] = True
    desk.files[BASE] = "print('learner code runs')\n" + TRIPLE
    grader = desk.grader()
    exercise = grader.course.exercise(1)
    with monkeypatch.context() as patch:
        patch.setattr(desk.sandbox, "worker", lambda *_: pytest.fail("a rehearsal runs learner code"))
        grader.rehearse(exercise, desk.file, 5, lambda: False)
    monkeypatch.setattr(Local, "request", lambda *_: pytest.fail("a chaff is asked, or the reference"))
    result = grader.grade(exercise, desk.file, seed=5)
    assert outcomes(result) == {"test_example": "failed", "test_values": "failed", "test_scalar": "passed"}
    assert [test.diagnosis for test in result.tests] == ["triple", "triple", None]


def test_a_rehearsal_ends_when_it_is_enough_and_the_next_run_is_whole(desk, monkeypatch):
    desk.options["remember"] = True
    grader = desk.grader()
    exercise = grader.course.exercise(1)
    assert grader.grade(exercise, desk.file, seed=5).points == 4
    collected: list[object] = []
    monkeypatch.setattr(Resident, "__init__", lambda resident, *_: collected.append(resident))
    for last in range(6):
        looks = iter([False] * last)
        grader.rehearse(exercise, desk.file, 6, lambda looks=looks: next(looks, True))
        assert grader.grade(exercise, desk.file, seed=6).points == 4
    assert collected == []


def test_without_chaffs_or_without_a_file_there_is_nothing_to_rehearse(desk, monkeypatch):
    desk.options["remember"] = True
    grader = desk.grader()
    monkeypatch.setattr(grade_module, "rehearse_suite", lambda *_: pytest.fail("something is rehearsed"))
    grader.rehearse(grader.course.exercise(2), desk.file, 5, lambda: False)
    desk.files[BASE] = MISSING
    grader.rehearse(grader.course.exercise(1), desk.file, 5, lambda: False)


def test_a_right_submission_gets_all_points(desk):
    result = desk.grade(1, student="anna", seed=7)
    assert (result.student, result.exercise, result.status, result.reason) == ("anna", BASE, "graded", None)
    assert (result.points, result.max_points, result.prerequisites, result.seed) == (4, 4, "own", 7)
    assert [(test.id, test.points, test.max_points, test.visible) for test in result.tests] == [
        ("public::test_example", 0, 0, True),
        ("hidden::test_values", 3, 3, False),
        ("hidden::test_scalar", 1, 1, False),
    ]
    assert result.environment.isolation == desk.sandbox.tier and result.environment.versions["torch"]
    assert result.started.endswith("+00:00") and result.seconds > 0 and result.output is None
    msgspec.json.encode(result)


def test_lost_points_are_told_with_message_diagnosis_and_hint(desk):
    desk.files[BASE] = "def double(x):\n    print('here')\n    return x + x + x\n"
    result = desk.grade(1)
    assert (result.status, result.points, result.max_points) == ("graded", 1, 4)
    public, values, scalar = result.tests
    assert public.message == "the output is wrong: yours is 9; expected 6" and public.diagnosis == "triple"
    assert "expected" not in values.message and (values.points, values.diagnosis, values.hint) == (0, "triple", "Is that twice?")
    assert (scalar.outcome, scalar.message, scalar.diagnosis) == ("passed", None, None)
    assert result.output.splitlines() == ["here"] * 3


@pytest.mark.parametrize(("kind", "status"), [("missing", "missing"), ("unreadable", "error")])
def test_a_file_that_is_not_there_or_cannot_be_read_has_no_points(desk, kind, status):
    desk.files[BASE] = Problem(kind=kind, message="because")
    result = desk.grade(1)
    assert (result.status, result.reason, result.points, result.tests) == (status, "because", None, [])
    assert not result.official and result.max_points == 4 and result.key


def test_an_untouched_stub_is_not_started(desk):
    desk.files[BASE] = (desk.root / "exercises/ex01_base.py").read_text()
    result = desk.grade(1)
    assert (result.status, result.reason, result.points) == ("graded", "not started", 0)


def test_a_file_that_cannot_be_loaded_is_the_reason(desk):
    desk.files[BASE] = "def double(x:\n"
    result = desk.grade(1)
    assert (result.status, result.points, result.max_points) == ("graded", 0, 4)
    assert result.reason.startswith("the file cannot be loaded: SyntaxError")
    assert set(outcomes(result).values()) == {"blocked"}


def test_what_cannot_be_assessed_costs_nothing(desk):
    desk.change("tests/hidden/test_ex01_base.py", 'def test_scalar(learner):\n    """double of a scalar."""', SKIPPING)
    result = desk.grade(1)
    assert (result.status, result.points, result.max_points) == ("graded", 3, 3)
    assert outcomes(result)["test_scalar"] == "not_assessed"


SKIPPING = '''def test_scalar(learner):
    """double of a scalar."""
    from grader.suite import not_assessed

    not_assessed("no")'''


def test_an_error_in_any_test_makes_the_result_an_error(desk):
    desk.change("tests/hidden/test_ex01_base.py", '    """double of a scalar."""', '    """double of a scalar."""\n    1 / 0')
    result = desk.grade(1)
    assert (result.status, result.points, result.official) == ("error", None, False)
    assert result.reason == "1 of 3 tests ended in an error of the grader's own: hidden::test_scalar"
    assert "ZeroDivisionError" in result.tests[2].detail and result.max_points == 3


def test_a_wrong_sum_of_points_is_the_courses_fault(desk):
    desk.change("course.toml", "points = 4", "points = 5")
    result = desk.grade(1)
    assert (result.status, result.points) == ("error", None)
    assert result.reason == "the hidden suite of ex01_base sums to 4 points, course.toml says 5"


def test_a_broken_suite_is_the_courses_fault(desk):
    (desk.root / "tests/hidden/test_ex01_base.py").write_text("def test(:\n")
    result = desk.grade(1)
    assert result.status == "error" and "SyntaxError" in result.reason and "sums to" not in result.reason


def test_a_sandbox_that_fails_is_no_zero(desk, monkeypatch):
    def refuse(*_):
        raise SandboxError("no isolation")

    monkeypatch.setattr(desk.sandbox, "worker", refuse)
    result = desk.grade(1)
    assert (result.status, result.points) == ("error", None) and "the sandbox failed: no isolation" in result.reason


def test_a_kit_without_hidden_tests_and_solutions_checks_the_examples(desk):
    import shutil

    for name in ("tests/hidden", "solutions"):
        shutil.rmtree(desk.root / name)
    desk.files[BASE] = "def double(x):\n    return 3 * x\n"
    result = desk.grade(1)
    assert (result.status, result.points, result.max_points) == ("graded", 0, 0)
    assert [(test.outcome, test.diagnosis) for test in result.tests] == [("failed", None)]
    with pytest.raises(MaterialError, match="there is no test of exercise 02"):
        desk.grade(2)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def double(x:\n", "triple.py, line 1: "),
        ("x = 1\x00\n", "triple.py, line 1: source code string cannot contain null bytes"),
        ("CATEGORY = 'numerics'\n", "needs a docstring"),
        ('"""Hint."""\n', "and a CATEGORY"),
    ],
)
def test_a_chaff_that_is_none_is_named(desk, source, problem):
    (desk.root / "solutions/chaffs/ex01_base/triple.py").write_text(source)
    with pytest.raises(MaterialError, match=problem):
        desk.grade(1)


# --- an early mistake is not punished twice ---

WRONG_BASE = "SECRET = 'learner text'\ndef double(x):\n    print(SECRET)\n    return 3 * x\n"
SPEAKING_TOP = """
from .ex01_base import double

def quadruple(x):
    print("learner text")
    if x.dim() == 0:
        raise KeyError("learner text")
    return double(double(x))
"""


def test_right_code_on_a_wrong_prerequisite_gets_its_points_on_the_reference(desk):
    desk.files[BASE] = WRONG_BASE
    result = desk.grade(2, seed=3)
    assert (result.status, result.points, result.max_points, result.prerequisites) == ("graded", 6, 6, "reference")
    assert result.reason is None and result.output is None and result.seed == 3
    assert set(outcomes(result).values()) == {"passed"}


def test_nothing_of_the_learners_is_echoed_where_it_ran_beside_the_reference(desk):
    desk.files |= {BASE: WRONG_BASE, TOP: SPEAKING_TOP}
    result = desk.grade(2)
    assert (result.points, result.prerequisites) == (5, "reference")
    assert b"learner text" not in msgspec.json.encode(result)
    failed = next(test for test in result.tests if test.outcome == "failed")
    assert failed.message == "failed, with right code in place of the earlier exercises"


def test_a_missing_prerequisite_is_replaced_too(desk):
    desk.files[BASE] = MISSING
    result = desk.grade(2)
    assert (result.status, result.points, result.prerequisites, result.reason) == ("graded", 6, "reference", None)


def test_without_any_loss_or_with_right_prerequisites_the_own_ones_count(desk):
    assert desk.grade(2).prerequisites == "own"
    desk.files[TOP] = SPEAKING_TOP  # loses a point all by itself
    result = desk.grade(2)
    assert (result.points, result.prerequisites) == (5, "own")
    assert "learner text" in result.output and any("learner text" in (test.message or "") for test in result.tests)


def test_the_own_score_is_kept_if_it_is_the_better_one(desk):
    desk.files[BASE] = "def double(x):\n    return 2 * x if x.dim() else x / 0 * None\n"
    desk.files[TOP] = QUADRUPLE.replace("return double(double(x))", "return double(double(x)) if x.dim() else x\n")
    assert (desk.grade(1).points, desk.grade(2).points) == (3, 6)  # nothing lost: not run again
    desk.files[TOP] = QUADRUPLE.replace("return double(double(x))", "return double(x)")
    result = desk.grade(2)
    assert (result.points, result.prerequisites) == (1, "reference")
    desk.files[BASE] = "def double(x):\n    return 4 * x if x.dim() else 'wrong'\n"
    result = desk.grade(2)  # two mistakes that cancel each other out where it counts most
    assert (result.points, result.prerequisites) == (5, "own") and "not a tensor" in result.tests[1].message


def test_known_results_of_prerequisites_are_believed(desk, monkeypatch):
    desk.files[TOP] = SPEAKING_TOP
    right = desk.grade(1)
    wrong = msgspec.structs.replace(right, points=1.0)
    lost = msgspec.structs.replace(right, status="error", points=None)
    calls, real = [], grade_module.run_suite

    def run_suite(suite, *more, **named):
        calls.append(suite.learner.main)
        return real(suite, *more, **named)

    monkeypatch.setattr(grade_module, "run_suite", run_suite)
    # Where the base is wrong: on the own one until something fails, on the reference, then, since that does not help, on the own
    # one to its end.
    for known, runs in ((right, 1), (wrong, 3), (lost, 3)):
        calls.clear()
        desk.grade(2, known={BASE: known})
        assert calls == [TOP] * runs
    calls.clear()
    desk.grade(2)
    assert calls == [TOP, BASE]  # graded on the way, and right


def test_mistakes_are_looked_for_only_in_the_run_that_counts(desk, monkeypatch):
    (desk.root / "solutions/chaffs/ex02_top").mkdir()
    (desk.root / "solutions/chaffs/ex02_top/once.py").write_text(
        QUADRUPLE.replace('"""Top."""', '"""Doubled once?"""\n\nCATEGORY = "numerics"').replace("double(double(x))", "double(x)")
    )
    explained, real = [], grade_module.run_suite
    monkeypatch.setattr(
        grade_module,
        "run_suite",
        lambda suite, *more, **named: explained.append(bool(suite.chaffs)) or real(suite, *more, **named),
    )
    once = QUADRUPLE.replace("double(double(x))", "double(x)")
    for base, top, runs, which in (
        (WRONG_BASE, QUADRUPLE, [False, True], "reference"),
        (DOUBLE, once, [False, True, False], "own"),  # said to be wrong, but no fault of this one
    ):
        desk.files |= {BASE: base, TOP: top}
        wrong = msgspec.structs.replace(desk.grade(1), points=1.0)
        explained.clear()
        result = desk.grade(2, known={BASE: wrong})
        assert (explained, result.prerequisites) == (runs, which)
    assert [test.diagnosis for test in result.tests if test.outcome == "failed"] == ["once"]
    explained.clear()
    desk.grade(2, known={BASE: wrong}, explain=False)
    assert explained == [False, False]


def test_what_fails_on_the_own_prerequisites_only_is_explained_there(desk, monkeypatch):
    desk.files[BASE] = "def double(x):\n    return 4 * x if x.dim() else 'wrong'\n"
    desk.files[TOP] = QUADRUPLE.replace("return double(double(x))", "return double(x)")
    wrong, explained, real = desk.grade(1), [], Grader._run
    monkeypatch.setattr(Grader, "_run", lambda *args, **named: explained.append(named["explain"]) or real(*args, **named))
    result = desk.grade(2, known={BASE: wrong})
    assert (result.points, result.prerequisites, explained) == (5, "own", [False, True, False, True])


def test_a_second_run_on_the_own_prerequisites_ends_where_it_cannot_count(desk):
    hidden = desk.root / "tests/hidden/test_ex02_top.py"
    more = '\n\n@points(1, "shape")\ndef test_{0}(learner):\n    """A row."""\n    x = randn(4)\n    assert_close(learner.quadruple(x), 4 * x)\n'
    hidden.write_text(hidden.read_text() + more.format("row") + more.format("other"))
    desk.change("course.toml", "points = 6", "points = 8")
    desk.files |= {BASE: "def double(x):\n    return 3 * x if x.dim() == 1 else 2 * x\n", TOP: SPEAKING_TOP}
    wrong, told = msgspec.structs.replace(desk.grade(1), points=1.0), []
    result = desk.grade(2, known={BASE: wrong}, watcher=lambda record, _: told.append((record.id[13:], record.outcome)))
    assert (result.points, result.prerequisites) == (7, "reference")
    assert told == [
        *[("values", "passed"), ("scalar", "failed")],  # something is wrong: on right code instead
        *[("values", "passed"), ("scalar", "failed"), ("row", "passed"), ("other", "passed")],  # not all is the base's fault
        *[("scalar", "failed"), ("values", "passed"), ("row", "failed")],  # but some of it
    ]


def test_a_run_that_cannot_count_ends_at_its_first_failure(desk):
    desk.change("tests/hidden/test_ex02_top.py", "import ", "import not_assessed, ")
    desk.change(
        "tests/hidden/test_ex02_top.py",
        '    """quadruple of a scalar."""\n',
        '    """A scalar."""\n    not_assessed("Not here.")\n',
    )
    desk.files[BASE] = WRONG_BASE
    wrong, told = desk.grade(1), []
    result = desk.grade(2, known={BASE: wrong}, watcher=lambda record, _: told.append(f"{record.id[8:]} {record.outcome}"))
    assert (result.points, result.prerequisites) == (5, "reference")
    assert told == ["test_values failed", "test_values passed", "test_scalar not_assessed"]


def test_carrying_forward_can_be_turned_off(desk):
    desk.options["carry_forward"] = False
    desk.files[BASE] = WRONG_BASE
    result = desk.grade(2)
    assert (result.points, result.prerequisites) == (1, "own")


def test_a_grader_that_fails_on_the_references_leaves_the_own_score(desk, monkeypatch):
    real = grade_module.run_suite

    def run_suite(suite, *more, **named):
        run = real(suite, *more, **named)
        on_reference = suite.learner.main == TOP and suite.learner.files[f"{BASE}.py"] == DOUBLE.encode()
        run.problems += ["the grader failed"] * on_reference
        return run

    monkeypatch.setattr(grade_module, "run_suite", run_suite)
    desk.files[BASE] = WRONG_BASE
    result = desk.grade(2)
    assert (result.status, result.points, result.prerequisites) == ("graded", 1, "own")


# --- keys ---

CHANGES: dict[str, Callable[[Desk], object]] = {
    "the submission": lambda desk: desk.files.update({TOP: QUADRUPLE + "\n"}),
    "a prerequisite of the submission": lambda desk: desk.files.update({BASE: DOUBLE + "\n"}),
    "a prerequisite that is gone": lambda desk: desk.files.update({BASE: MISSING}),
    "the hidden suite": lambda desk: desk.change("tests/hidden/test_ex02_top.py", "anything", "something"),
    "the reference": lambda desk: desk.change("solutions/ex02_top.py", "Top", "Very top"),
    "the reference of a prerequisite": lambda desk: desk.change("solutions/ex01_base.py", "Base", "Very base"),
    "a chaff": lambda desk: write_chaff(desk, TRIPLE),
    "a given file": lambda desk: (desk.root / "exercises/config.py").write_text("x = 1\n"),
    "the points": lambda desk: desk.change("course.toml", "points = 6", "points = 7"),
    "the names": lambda desk: desk.change("course.toml", '["quadruple"]', '["quadruple", "other"]'),
    "a by-hand rule": lambda desk: (desk.root / "course.toml").write_text(
        (desk.root / "course.toml").read_text() + '[[exercise.by_hand]]\ncalls = ["torch.nn.GELU"]\n'
    ),
    "the time of a call": lambda desk: desk.change("course.toml", "call_seconds = 2.0", "call_seconds = 3.0"),
    "the time of an exercise": lambda desk: desk.change("course.toml", "exercise_seconds = 30.0", "exercise_seconds = 31.0"),
    "the hangs": lambda desk: desk.change("course.toml", "call_seconds = 2.0", "call_seconds = 2.0\nmax_hangs = 5"),
    "the memory": lambda desk: desk.change(
        "course.toml", "prerequisites = [1]", "prerequisites = [1]\nlimits = { memory_mb = 999 }"
    ),
}
KEPT: dict[str, Callable[[Desk], object]] = {
    "nothing": lambda desk: None,
    "the title": lambda desk: desk.change("course.toml", 'title = "Top"', 'title = "Peak"'),
    "the feedback": lambda desk: desk.change("course.toml", "prerequisites = [1]", 'prerequisites = [1]\nfeedback = "verdict"'),
    "the course's name": lambda desk: desk.change("course.toml", 'name = "Small"', 'name = "Smaller"'),
    "another exercise's suite": lambda desk: desk.change("tests/hidden/test_ex01_base.py", "anything", "something"),
    "another exercise's chaff": lambda desk: desk.change("solutions/chaffs/ex01_base/triple.py", "twice", "thrice"),
    "another exercise's points": lambda desk: desk.change("course.toml", "points = 4", "points = 5"),
    "a comment": lambda desk: desk.change("course.toml", "[limits]", "# a comment\n[limits]"),
    "a lesson": lambda desk: (desk.root / "exercises/ex02_top.md").write_text("# 02\n"),
    "a stub": lambda desk: (desk.root / "exercises/ex02_top.py").write_text("\n"),
    "another file of the submission": lambda desk: desk.files.update({"ex03_more": "x"}),
}


def write_chaff(desk: Desk, text: str) -> None:
    path = desk.root / "solutions/chaffs/ex02_top/one.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_key_changes_with_what_a_result_depends_on(desk, change):
    before = desk.key(2)
    change(desk)
    assert desk.key(2) != before


@pytest.mark.parametrize("change", KEPT.values(), ids=KEPT)
def test_the_key_stays_whatever_else_changes(desk, change):
    before = desk.key(2)
    change(desk)
    assert desk.key(2) == before


def test_the_key_changes_with_the_grader_and_the_kind_of_hardware(desk, monkeypatch):
    before = desk.key(2)
    monkeypatch.setattr("grader.grading.materials.grader_hash", lambda: "other")
    assert desk.key(2) != before
    monkeypatch.undo()
    monkeypatch.setattr(Grader, "hardware", lambda self: "cuda")
    assert desk.key(2) != before
    assert grader_hash() == grader_hash() and len(grader_hash()) == 64


def test_a_sentence_about_a_file_is_never_taken_for_the_file(desk):
    desk.files[BASE] = Problem(kind="missing", message="the same text")
    missing = desk.key(1)
    desk.files[BASE] = "the same text"
    assert desk.key(1) != missing


def test_the_key_of_a_result_is_the_one_that_was_announced(desk):
    desk.grade(1)  # settles the tier
    assert desk.grade(2, seed=1).key == desk.grade(2, seed=2).key == desk.key(2)
    desk.files[TOP] = MISSING
    assert desk.grade(2).key == desk.key(2)
    assert desk.grade(1).key != desk.grade(2).key


# --- seeds ---


def test_seeds_are_fresh_recorded_and_repeatable(desk):
    desk.files[BASE] = "def double(x):\n    print(x)\n    return x\n"
    first, second = desk.grade(1), desk.grade(1)
    assert first.seed != second.seed and first.output != second.output
    again = desk.grade(1, seed=first.seed)
    assert (again.seed, again.output) == (first.seed, first.output)
    assert [test.message for test in again.tests] == [test.message for test in first.tests]


# --- official ---


@pytest.mark.parametrize(("could", "official"), [([], True), (["read a file of the host"], False)])
def test_results_are_official_only_with_a_clean_probe(desk, monkeypatch, could, official):
    probes = []
    monkeypatch.setattr(grade_module, "probe", lambda sandbox, file: probes.append(file) or could)
    desk.options["official"] = True
    grader = desk.grader()
    first, second = (grader.grade(grader.course.exercise(1), desk.file) for _ in range(2))
    assert first.official == second.official == official and first.environment.probe == could
    assert len(probes) == 1  # once for all results
    desk.files[BASE] = MISSING
    assert grader.grade(grader.course.exercise(1), desk.file).official is False


def test_without_a_probe_nothing_is_official(desk):
    result = desk.grade(1)
    assert result.points == 4 and result.official is False and result.environment.probe is None


def test_materials_are_read_once_per_grader(desk):
    grader = desk.grader()
    exercise = grader.course.exercise(1)
    assert grader.materials(exercise) is grader.materials(exercise)
    materials = read_materials(grader.course, grader.course.exercise(2))
    assert [one.file for one in materials.prerequisites] == [BASE] and materials.references.keys() == {f"{BASE}.py", f"{TOP}.py"}
    assert (materials.limits.call_seconds, materials.exercise_seconds, materials.max_hangs) == (2, 30, 3)
