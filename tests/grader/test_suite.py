"""Small suites run through the real runner and a real sandbox: outcomes, sentences, points, limits, faults and diagnoses."""

from __future__ import annotations

import builtins
import logging
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.sandbox.client import Limits, Package, Worker
from grader.suite import diagnosis, plugin
from grader.suite.by_hand import ByHandRule
from grader.suite.diagnosis import Chaff, MeasuredPeak, Search, same_value, settle
from grader.suite.inputs import InputSource
from grader.suite.plugin import Suite, run_suite
from grader.suite.process import LearnerProcess
from grader.suite.records import SuiteRun, TestRecord
from grader.suite.sharing import LEADER, PARTNER, Board, Share

DOUBLE = "def double(x):\n    return 2 * x\n"
HEAD = "import pytest, torch\nfrom grader.suite import *\n"
ONE_TEST = '''
@points(4, "numerics")
def test_doubled(learner, reference):
    """Twice the input."""
    x = randn(2, 3)
    assert_close(learner.double(x), reference.double(x))
'''


@pytest.fixture
def run(tmp_path, sandbox):
    """Runs a suite that is given as texts."""

    def run(
        hidden: str = ONE_TEST,
        learner: str | bytes = DOUBLE,
        *,
        public: str = "",
        reference: str = DOUBLE,
        chaffs: dict[str, str] | None = None,
        category: str = "numerics",
        calls: list[str] | None = None,
        call_seconds: float = 5.0,
        watcher: Callable | None = None,
        share: Share | None = None,
        **more,
    ) -> SuiteRun:
        files = []
        for folder, text in (("public", public), ("hidden", hidden)):
            path = tmp_path / "tests" / folder / "test_ex01_double.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            if text:
                path.write_text(HEAD + textwrap.dedent(text))
                files.append(path)

        def package(source: str | bytes, name: str = "exercises") -> Package:
            data = source if isinstance(source, bytes) else textwrap.dedent(source).encode()
            forbidden = {"double": calls} if calls else {}
            return Package(main="ex01_double", files={"ex01_double.py": data}, name=name, forbidden=forbidden)

        suite = Suite(
            learner=package(learner),
            names=["double"],
            files=files,
            public=tmp_path / "tests/public",
            reference=package(reference, "_reference"),
            chaffs=[
                Chaff(name, f"Is it {name}?", category, package(source, f"_chaff_{name}"))
                for name, source in (chaffs or {}).items()
            ],
            rules=[ByHandRule(calls)] if calls else [],
            limits=Limits(call_seconds=call_seconds, memory_mb=512, output_kb=4),
            seed=more.pop("seed", 5),
            **more,
        )
        return run_suite(suite, sandbox, watcher, share=share)

    return run


def only(result: SuiteRun) -> TestRecord:
    assert result.problems == []
    (record,) = result.tests
    return record


# --- outcomes and points ---


def test_each_outcome(run):
    result = run(
        '''
        @points(1, "shape")
        def test_right(learner):
            """Right.

            What follows is for people who read the suite.
            """
            assert_equal(learner.double(2), 4)

        @points(1, "numerics")
        def test_wrong(learner):
            """Wrong."""
            assert_equal(learner.double(2), 5)

        @points(1, "numerics")
        def test_own_words(learner):
            """In its own words."""
            fail("2 and 2 is not 4")

        @points(1, "numerics")
        def test_bare_assert(learner):
            """A bare assert."""
            assert learner.double(2) == 5, "5 was expected"

        @points(1, "speed")
        def test_no_gpu(learner):
            """Needs what is not here."""
            not_assessed("needs a GPU")

        @points(1, "robustness")
        def test_broken(learner):
            """The grader's own fault."""
            randn(2, 3)
            1 / 0

        @points(1, "robustness")
        def test_authors_mistake(learner):
            """The author's fault."""
            randn(3, 3)

        @points(1, "robustness")
        def test_assert_elsewhere(learner):
            """An assert that is not the test's own."""
            torch.testing.assert_close(torch.ones(2), torch.zeros(2))

        @points(1, "robustness")
        def test_reference_fails(learner, reference):
            """The reference's fault."""
            reference.double(None)

        @points(1, "robustness")
        def test_skipped(learner):
            """Suites do not skip."""
            pytest.skip("later")
        '''
    )
    assert result.problems == [] and result.blocked_by is None
    assert {test.id.removeprefix("hidden::test_"): (test.outcome, test.message) for test in result.tests} == {
        "right": ("passed", None),
        "wrong": ("failed", "the output is 4"),
        "own_words": ("failed", "2 and 2 is not 4"),
        "bare_assert": ("failed", None),
        "no_gpu": ("not_assessed", "needs a GPU"),
        **dict.fromkeys(
            ("broken", "authors_mistake", "assert_elsewhere", "reference_fails", "skipped"),
            ("error", "the grader itself failed here; please tell your instructor"),
        ),
    }
    right, *_ = result.tests
    assert (right.title, right.category, right.max_points, right.visible) == ("Right.", "shape", 1, False)
    broken = next(test for test in result.tests if test.id.endswith("broken"))
    assert "ZeroDivisionError" in broken.detail and "inputs: randn x 1 [2, 3] float32" in broken.detail
    assert all((test.detail is not None) == (test.outcome == "error") for test in result.tests)


def test_cases_share_the_points_and_public_tests_have_none(run):
    result = run(
        '''
        @points(2, "shape")
        @pytest.mark.parametrize("n", [1, 2])
        @pytest.mark.parametrize("m", ["a", "b"])
        def test_cases(learner, n, m):
            """Four cases."""
            assert_equal(learner.double(n), 2 * n)

        @points(0.75, "shape")
        def test_alone(learner):
            """One test."""
            assert_equal(learner.double(1), 2)
        ''',
        public='''
        @points(0, "shape")
        @pytest.mark.parametrize("n", [1, 2])
        def test_cases(learner, n):
            """An example."""
            assert_equal(learner.double(n), 2 * n)
        ''',
    )
    assert result.problems == []
    assert [(test.id, test.max_points, test.visible) for test in result.tests] == [
        ("public::test_cases[1]", 0, True),
        ("public::test_cases[2]", 0, True),
        *((f"hidden::test_cases[{case}]", 0.5, False) for case in ("a-1", "a-2", "b-1", "b-2")),
        ("hidden::test_alone", 0.75, False),
    ]
    assert {test.outcome for test in result.tests} == {"passed"}


def test_tests_of_classes_keep_their_own_points(run):
    result = run(
        '''
        class TestOne:
            @points(1, "shape")
            def test_it(self, learner):
                """One."""
                assert_equal(learner.double(1), 2)

        class TestTwo:
            @points(2, "shape")
            @pytest.mark.parametrize("n", [1, 2])
            def test_it(self, learner, n):
                """Two."""
                assert_equal(learner.double(n), 2 * n)
        '''
    )
    assert [(test.id, test.max_points, test.outcome) for test in result.tests] == [
        ("hidden::TestOne::test_it", 1, "passed"),
        ("hidden::TestTwo::test_it[1]", 1, "passed"),
        ("hidden::TestTwo::test_it[2]", 1, "passed"),
    ]


def test_what_was_expected_is_told_for_public_examples_alone(run):
    text = '''
    @points({}, "numerics")
    def test_values(learner):
        """Values."""
        assert_close(learner.double(torch.tensor([1.0])), torch.tensor([41.5]))
    '''
    hidden = only(run(text.format(1)))
    assert hidden.message == "1 of 1 values of the output is wrong, at [0]: yours is 2"
    public = only(run("", public=text.format(0)))
    assert public.message == "1 of 1 values of the output is wrong, at [0]: yours is 2; expected 41.5"


def test_one_test_can_be_run_alone_and_keeps_its_points_and_inputs(run):
    text = '''
    @points(1, "shape")
    @pytest.mark.parametrize("n", [1, 2])
    def test_cases(learner, n):
        """Two cases."""
        learner.double(str(randn(2, 3)))

    @points(1, "shape")
    def test_other(learner):
        """Another."""
    '''
    printing = "def double(x):\n    print(x)\n"
    whole, alone = run(text, printing), run(text, printing, only="cases[2]")
    assert [(test.id, test.max_points) for test in alone.tests] == [("hidden::test_cases[2]", 0.5)]
    assert alone.output and whole.output.endswith(alone.output)


def test_the_seed_decides_the_inputs(run):
    text = '''
    @points(1, "shape")
    def test_a(learner):
        """A."""
        learner.double(randn(2, 3).tolist())

    @points(1, "shape")
    def test_b(learner):
        """B."""
        learner.double(randn(2, 3).tolist())
    '''
    printing = "def double(x):\n    print(x)\n"
    first, again, other = (run(text, printing, seed=seed).output for seed in (1, 1, 2))
    assert first == again != other
    one, two = first.splitlines()
    assert one != two


# --- a learner's file that cannot be loaded ---


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1\ndef double(x)\n    return x\n", "SyntaxError: expected ':'\n  ex01_double.py, line 2:  def double(x)"),
        ("import torch\n\n\nraise RuntimeError('no')\n", "RuntimeError: no\n  ex01_double.py, line 4:  raise RuntimeError('no')"),
        (
            "from .ex00_none import x\n",
            "ModuleNotFoundError: No module named 'exercises.ex00_none'\n  ex01_double.py, line 1:  from .ex00_none import x",
        ),
        (
            "raise NotImplementedError('later')\n",
            "NotImplementedError: later\n  ex01_double.py, line 1:  raise NotImplementedError('later')",
        ),
        ("import os\nos._exit(3)\n", "the code ended its own process (exit code 3) instead of answering"),
        ("while True: pass\n", "no answer within 1 s: an endless loop, or far too slow?"),
        (b"x = '\xff'\n", "SyntaxError"),
        (b"x = 1\x00\n", "source code string cannot contain null bytes"),
        ("raise SystemExit(0)\n", "SystemExit: 0\n  ex01_double.py, line 1:  raise SystemExit(0)"),
    ],
    ids=["syntax", "raises", "import", "not written", "exits", "hangs", "not utf-8", "null byte", "system exit"],
)
def test_a_file_that_cannot_be_loaded_is_told_once_with_the_learners_line(run, source, told):
    text = ONE_TEST + ONE_TEST.replace("test_doubled", "test_again")
    result = run(text, source, call_seconds=1.0, chaffs={"triple": "def double(x):\n    return 3 * x\n"})
    assert result.problems == []
    assert result.blocked_by.startswith("the file cannot be loaded: ") and told in result.blocked_by
    assert [(test.outcome, test.message, test.diagnosis) for test in result.tests] == [("blocked", result.blocked_by, None)] * 2


def test_a_missing_name_is_told_where_it_is_needed(run):
    text = (
        ONE_TEST
        + '''
@points(1, "shape")
def test_other(learner):
    """Another name."""
    assert_equal(learner.triple(1), 3)
'''
    )
    doubled, other = run(text, "def triple(x):\n    return 3 * x\n").tests
    assert (doubled.outcome, doubled.message) == ("failed", "ex01_double.py has no `double`; the name is part of the contract")
    assert other.outcome == "passed"


def test_a_stub_is_told_as_not_written_and_not_diagnosed(run):
    stub = "def double(x):\n    raise NotImplementedError('EX01: double')\n"
    record = only(run(learner=stub, chaffs={"stub": stub}))
    assert (record.outcome, record.message, record.diagnosis) == ("failed", "double is not written yet", None)


# --- a learner's code that misbehaves ---


def test_an_exception_is_told_with_its_type_message_and_line(run):
    record = only(run(learner="def helper(x):\n    return x['a']\n\ndef double(x):\n    return helper({})\n"))
    assert record.message == "double raised KeyError: 'a'\n  ex01_double.py, line 2:  return x['a']"


TWO_TESTS = '''
@points(1, "numerics")
def test_bad(learner):
    """This one breaks something."""
    learner.double("bad")

@points(1, "numerics")
def test_good(learner):
    """This one does not."""
    assert_equal(learner.double(2), 4)
'''


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("os._exit(1)", "the code ended its own process (exit code 1) instead of answering"),
        ("os.abort()", "the code's process was ended by SIG"),
        ("while True: pass", "no answer within 1 s: an endless loop, or far too slow?"),
        ("sys.exit()", "double raised SystemExit"),
        ("return x + '\\ud800' * 2 + x", "not a tensor"),
        ("raise ValueError('\\ud800' * 10**6)", "double raised ValueError"),
        ("return 10**2000", "not a tensor"),
        ("return [torch.ones(2), {1: (None, b'x')}]", "not a tensor"),
        ("return x.__class__.__mro__", "not a tensor"),
        ("return lambda: 3", "not a tensor"),
    ],
)
def test_whatever_happens_in_one_test_the_next_one_is_judged_on_its_own(run, body, told):
    text = TWO_TESTS.replace('learner.double("bad")', 'assert_close(learner.double("bad"), torch.ones(2))')
    source = f"import os, sys, torch\ndef double(x):\n    if x == 'bad':\n        {body}\n    return 2 * x\n"
    result = run(text, source, call_seconds=1.0)
    bad, good = result.tests
    assert (bad.outcome, good.outcome) == ("failed", "passed"), (bad.detail, good.detail)
    assert told in bad.message and len(bad.message) < 5000
    bad.message.encode()
    assert result.problems == []


def test_after_so_many_hangs_the_rest_is_not_run(run):
    text = "".join(
        f'''
@points(1, "numerics")
def test_{number}(learner):
    """Number {number}."""
    assert_equal(learner.double({number}), {2 * number})
'''
        for number in range(5)
    )
    source = "def double(x):\n    while x % 2 == 0: pass\n    return 2 * x\n"
    result = run(text, source, call_seconds=0.3, max_hangs=2)
    assert [test.outcome for test in result.tests] == ["failed", "passed", "failed", "blocked", "blocked"]
    assert result.tests[-1].message == "not run: 2 tests before this one never came to an end"
    assert result.blocked_by is None


def test_an_exercise_has_a_time_limit_as_a_whole(run):
    text = "".join(
        f'''
@points(1, "numerics")
def test_{number}(learner):
    """Number {number}."""
    assert_equal(learner.double({number}), {2 * number})
'''
        for number in range(4)
    )
    source = "import time\ndef double(x):\n    time.sleep(1.2)\n    return 2 * x\n"
    result = run(text, source, exercise_seconds=2.0)
    assert [test.outcome for test in result.tests] == ["passed", "failed", "blocked", "blocked"]
    assert result.tests[1].message.startswith("no answer before the time for the whole exercise was used up")
    assert result.tests[2].message == "not run: the 2 s for the whole exercise are used up"


def test_what_the_code_prints_is_kept_up_to_a_limit(run):
    record = run(learner="print('loaded')\ndef double(x):\n    print('called')\n    return 2 * x\n")
    assert record.output == "loaded\ncalled\n"
    long = run(learner="print('x' * 10000)\ndef double(x):\n    return 2 * x\n").output
    assert len(long) < 5000 and "more bytes" in long


# --- faults of a suite ---


@pytest.mark.parametrize(
    ("hidden", "problem"),
    [
        ("def test_a(learner):\n    '''A.'''", "test_a: no points"),
        ("@points(1, 'shape')\ndef test_a(learner):\n    pass", "test_a: no docstring"),
        ("@points(0, 'shape')\ndef test_a(learner):\n    '''A.'''", "public tests carry 0 points, hidden ones more"),
        ("@points(1, 'form')\ndef test_a(learner):\n    '''A.'''", "category 'form': allowed are shape,"),
        ("@points(-1, 'shape')\ndef test_a(learner):\n    '''A.'''", "points -1: must not be negative"),
        ("def test_a(learner:\n    pass", "SyntaxError"),
        ("import not_there", "No module named 'not_there'"),
        ("@points(1, 'shape')\ndef test_a(teacher):\n    '''A.'''", "fixture 'teacher' not found"),
        ("@pytest.fixture\ndef bad():\n    1 / 0\n\n@points(1, 'shape')\ndef test_a(bad):\n    '''A.'''", "ZeroDivisionError"),
    ],
    ids=["points", "docstring", "no points", "category", "negative", "syntax", "import", "fixture", "broken fixture"],
)
def test_a_fault_of_the_suite_is_a_problem_and_never_a_learners_failure(run, hidden, problem):
    result = run(hidden)
    assert any(problem in one for one in result.problems), result.problems
    assert all(test.outcome == "blocked" for test in result.tests)


def test_points_for_a_public_example_are_a_problem(run):
    result = run("", public=ONE_TEST)
    assert "public tests carry 0 points, hidden ones more" in result.problems[0] and result.tests == []


def test_a_suite_is_read_anew_in_every_run(run, tmp_path):
    assert only(run()).outcome == "passed"
    record = only(run(ONE_TEST.replace("test_doubled", "test_renamed").replace("Twice the", "Double the")))
    assert (record.id, record.title) == ("hidden::test_renamed", "Double the input.")


def test_words_are_found_for_the_learner_alone(run, monkeypatch):
    from grader.suite import checks

    said, real = [], checks.explain_values
    monkeypatch.setattr(checks, "explain_values", lambda *values: said.append(1) or real(*values))
    triple = "def double(x):\n    return 3 * x\n"
    record = only(run(learner=triple, chaffs={"same": triple, "other": "def double(x):\n    return 4 * x\n"}))
    assert (record.diagnosis, len(said)) == ("same", 1) and "constant factor" in record.message


def test_references_and_chaffs_are_loaded_anew_when_they_change(run):
    triple = "def double(x):\n    return 3 * x\n"
    assert only(run()).outcome == "passed"
    assert only(run(reference=triple)).outcome == "failed"
    assert only(run(learner=triple, chaffs={"wrong": triple})).diagnosis == "wrong"
    assert only(run(learner=triple, chaffs={"wrong": "def double(x):\n    return 4 * x\n"})).diagnosis is None


def test_a_run_leaves_nothing_of_itself_behind(run, monkeypatch):
    held = []

    def forget_objects() -> None:
        held.append(len(diagnosis._local["_reference"][1]._executor.kept))
        diagnosis.forget_objects()

    monkeypatch.setattr(plugin, "forget_objects", forget_objects)
    before = set(sys.modules)
    run(
        '''
        @points(1, "shape")
        def test_module(learner, reference):
            """A module."""
            assert_shape(reference.double()(randn(2, 3)), (2, 3))
            learner.double(3)
        ''',
        reference="import torch\ndef double():\n    return torch.nn.Linear(3, 3)\n",
    )
    assert not [name for name in set(sys.modules) - before if "test_ex01" in name]
    assert InputSource.current is None and logging.root.manager.disable == logging.NOTSET
    assert held == [1] and diagnosis._local["_reference"][1]._executor.kept == {}


def test_a_mistake_in_training_is_not_looked_for(run):
    text = """
        @points(1, "numerics")
        def test_it_learns(learner, training):
            "It learns."
            assert learner.double(5) == 2 * training[0]

        @points(1, "numerics")
        def test_double(learner, reference):
            "It doubles."
            assert_equal(learner.double(5), reference.double(5))
    """
    triple = chaff("3 * x")
    result = run(text, triple, chaffs={"wrong": triple}, training=(5, 1.0))
    assert [(test.outcome, test.diagnosis) for test in result.tests] == [("failed", None), ("failed", "wrong")]


# --- a process that has done nothing before ---

COUNTING = "CALLS = []\ndef double(x):\n    CALLS.append(x)\n    return len(CALLS)\n"


def test_a_fresh_learner_has_done_nothing_before(run):
    """Tests that want one come first, and the others go on with the last one's process."""
    text = "".join(
        f'''
@points(1, "robustness")
def test_{number}({fixture}):
    """Number {number}."""
    assert_equal([{fixture}.double(1), {fixture}.double(1)], {expected})
'''
        for number, (fixture, expected) in enumerate(
            [("learner", [3, 4]), ("learner", [5, 6]), ("fresh_learner", [1, 2]), ("fresh_learner", [1, 2]), ("learner", [7, 8])]
        )
    )
    result = run(text, COUNTING)
    assert [test.outcome for test in result.tests] == ["passed"] * 5, [test.message for test in result.tests]


STATEFUL = """
import torch
SEEN = []
def double(x):
    SEEN.append(2 * x)
    return SEEN[0]
"""
SECOND_CALL = '''
@points(1, "robustness")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_second_call({fixture}, reference, n):
    """A second call knows nothing of the first."""
    x, y = randn(2, 3), randn(2, 3)
    assert_close({fixture}.double(x), reference.double(x))
    assert_close({fixture}.double(y), reference.double(y))
'''


def test_a_mistake_that_shows_in_the_second_call_is_named(run):
    result = run(
        SECOND_CALL.format(fixture="fresh_learner"),
        STATEFUL,
        chaffs={
            "remembers": STATEFUL,
            "forgets": "def double(x):\n    return None\n",
            "remembers_too_much": STATEFUL.replace("return SEEN[0]", "return sum(SEEN)"),
        },
        category="robustness",
    )
    assert [(test.outcome, test.diagnosis) for test in result.tests] == [("failed", "remembers")] * 3
    assert result.tests[0].hint == "Is it remembers?"


def test_replays_on_fresh_copies_leave_no_modules_behind(run):
    run(SECOND_CALL.format(fixture="fresh_learner"), STATEFUL, chaffs={"remembers": STATEFUL})
    assert not [name for name in sys.modules if "_fresh" in name]
    assert not [finder for finder in sys.meta_path if getattr(finder, "package", "").endswith("_fresh")]


# --- diagnosis ---


def chaff(expression: str) -> str:
    return f"import torch\ndef double(x):\n    return {expression}\n"


def test_the_one_chaff_with_the_learners_answers_is_named(run):
    record = only(
        run(
            learner=chaff("x + x + x"),
            chaffs={
                "right": chaff("2 * x"),
                "none": chaff("None"),
                "triple": chaff("3 * x"),
                "raises": chaff("x[99]"),
                "other shape": chaff("(3 * x)[None]"),
                "other dtype": chaff("(3 * x).double()"),
            },
        )
    )
    assert (record.diagnosis, record.hint) == ("triple", "Is it triple?")


def test_nothing_is_named_when_no_chaff_fits_or_two_do(run):
    assert only(run(learner=chaff("5 * x"), chaffs={"triple": chaff("3 * x")})).diagnosis is None
    record = only(run(learner=chaff("3 * x"), chaffs={"triple": chaff("3 * x"), "thrice": chaff("x + x + x")}))
    assert (record.diagnosis, record.hint) == (None, None)


def test_of_two_chaffs_that_fit_one_test_the_one_that_explains_more_is_named(run):
    text = (
        ONE_TEST
        + '''
@points(1, "numerics")
def test_negative(learner, reference):
    """Twice a negative input."""
    x = -randn(2, 3).abs()
    assert_close(learner.double(x), reference.double(x))

@points(1, "numerics")
def test_zero(learner, reference):
    """Twice a zero is zero."""
    x = torch.zeros(2)
    assert_close(learner.double(x), reference.double(x))
'''
    )
    result = run(
        text.replace("x = randn(2, 3)", "x = randn(2, 3).abs()"),
        chaff("torch.where(x > 0, 3 * x, 4 * x)"),
        chaffs={"triple": chaff("3 * x"), "by sign": chaff("torch.where(x > 0, 3 * x, 4 * x)"), "quadruple": chaff("4 * x")},
    )
    assert [(test.outcome, test.diagnosis) for test in result.tests] == [
        ("failed", "by sign"),
        ("failed", "by sign"),
        ("passed", None),
    ]


def test_an_exception_is_compared_by_its_type(run):
    learner = chaff("x.reshape(7)")
    chaffs = {"key": chaff("{}[0]"), "reshapes": chaff("(x + 1).reshape(99)")}
    assert only(run(learner=learner, chaffs=chaffs)).diagnosis == "reshapes"


def test_a_chaff_must_fail_at_the_same_place(run):
    text = '''
    @points(1, "numerics")
    def test_twice(learner, reference):
        """Two calls."""
        x, y = randn(2, 3).abs(), -randn(2, 3).abs()
        assert_close(learner.double(x), reference.double(x))
        assert_close(learner.double(y), reference.double(y))
    '''
    wrong_for_negative = chaff("torch.where(x > 0, 2 * x, 3 * x)")
    chaffs = {"triple": chaff("3 * x"), "negative": wrong_for_negative}
    assert only(run(text, wrong_for_negative, chaffs=chaffs)).diagnosis == "negative"
    assert only(run(text, chaff("3 * x"), chaffs=chaffs)).diagnosis == "triple"


def test_answers_that_stay_away_are_compared_by_type_and_by_what_they_do(run):
    text = '''
    @points(1, "numerics")
    def test_module(learner):
        """A module."""
        layer = learner.double(3)
        x = randn(2, 3)
        assert_close(layer(x), 2 * x)
    '''
    module = """
    import torch
    class Layer(torch.nn.Module):
        def forward(self, x): return {} * x
    def double(n): return Layer()
    """
    chaffs = {
        "triple": module.format(3),
        "quadruple": module.format(4),
        "none": chaff("None"),
        "list": chaff("torch.nn.Identity()"),
    }
    assert only(run(text, module.format(4), chaffs=chaffs)).diagnosis == "quadruple"


def test_what_chaffs_print_is_not_shown(run, capfd):
    printing = "def double(x):\n    print('from a chaff')\n    return 3 * x\n"
    for fixture in ("learner", "fresh_learner"):
        result = run(ONE_TEST.replace("learner", fixture), chaff("3 * x"), chaffs={"printing": printing})
        assert only(result).diagnosis == "printing" and "chaff" not in result.output
    assert "chaff" not in "".join(capfd.readouterr())


def test_a_right_answer_is_not_searched_for(run):
    record = only(run(chaffs={"raises": "raise RuntimeError('never loaded')\n"}))
    assert record.outcome == "passed"


def test_a_chaff_that_cannot_be_loaded_matches_nothing(run):
    assert only(run(learner=chaff("3 * x"), chaffs={"broken": "1 / 0\n"})).diagnosis is None


def chaffs_called(*names: str) -> list[Chaff]:
    return [Chaff(name, "", "numerics", Package(main="a", files={})) for name in names]


def test_a_search_tries_likely_chaffs_first():
    search, tried = Search(chaffs_called("a", "b", "c")), []

    def matching(*names: str):
        return lambda chaff: tried.append(chaff.name) or chaff.name in names

    search.explain("first", search.chaffs, matching("b"))
    search.explain("second", search.chaffs, matching("b", "c"))
    search.explain("third", search.chaffs, matching("c"))
    assert tried == ["a", "b", "c", "b", "b", "a", "c"]
    assert search.found == {"first": ["b"], "second": ["b"], "third": ["c"]}


def test_a_search_that_is_cut_short_names_nothing():
    search = Search(chaffs_called("a", "b", "c"), tries=4)
    search.explain("first", search.chaffs, lambda chaff: True)
    assert search.found == {"first": ["a", "b", "c"]} and search.tries == 1
    search.explain("second", search.chaffs, lambda chaff: True)
    search.explain("third", search.chaffs, lambda chaff: True)
    assert search.found == {"first": ["a", "b", "c"], "second": [], "third": []}
    expensive = Search(chaffs_called("a", "b", "c"), tries=10)
    expensive.explain("first", expensive.chaffs, lambda chaff: True, cost=6)
    slow = Search(chaffs_called("a", "b", "c"), seconds=-1.0)
    slow.explain("first", slow.chaffs, lambda chaff: True)
    assert expensive.found == slow.found == {"first": []}


@pytest.mark.parametrize(
    ("found", "settled"),
    [
        ({}, {}),
        ({"t": []}, {"t": None}),
        ({"t": ["a"]}, {"t": "a"}),
        ({"t": ["a", "b"]}, {"t": None}),
        ({"t": ["a", "b"], "u": ["a"]}, {"t": "a", "u": "a"}),
        ({"t": ["a", "b"], "u": ["a", "b"], "v": ["c"]}, {"t": None, "u": None, "v": "c"}),
        ({"t": ["a", "b"], "u": ["a"], "v": ["b"]}, {"t": None, "u": "a", "v": "b"}),
    ],
)
def test_how_several_matches_are_settled(found, settled):
    assert settle(found) == settled


# --- memory ---

MEMORY = '''
@points(1, "memory")
def test_memory(learner, peak_memory):
    """No more than the result."""
    learner.double(randn(2, 3))
    x = randn(1024, 512)
    grown = peak_memory(learner.double, x)
    assert_equal(grown.result.fetch(), 2 * x)
    if grown > 3 << 20:
        fail(f"memory grew by {round(grown / (2 << 20))} times the result")
'''


def test_memory_is_measured_and_mistakes_with_it_are_named(run):
    copies = chaff("torch.stack([x, x, x, x])[0] * 2")
    chaffs = {"two": chaff("2 * (x + 0) / 1"), "four": copies}
    assert only(run(MEMORY)).outcome == "passed"
    record = only(run(MEMORY, chaff("torch.cat([x, x, x, x])[:len(x)] * 2"), chaffs=chaffs, category="memory"))
    assert (record.outcome, record.diagnosis) == ("failed", "four")
    assert record.message.startswith("memory grew by 5 times")
    assert only(run(MEMORY, copies, chaffs=chaffs, category="numerics")).diagnosis is None  # only memory chaffs are measured


@pytest.mark.parametrize(
    ("one", "other", "same"), [(40, 43, True), (40, 46, False), (3, 3.9, True), (3, 4.1, False), (0.1, 0.5, True)]
)
def test_peaks_are_compared_as_finely_as_they_repeat(one, other, same):
    """MiB."""
    first, second = (MeasuredPeak(int(size * 2**20)) for size in (one, other))
    assert same_value(first, second) == same_value(second, first) == same


def test_a_second_measurement_knows_nothing_of_the_first(run):
    """The same call takes the same; no object of the first one can be part of it, since it may have a worker of its own."""
    again = "    twice = peak_memory(learner.double, x)\n    assert abs(twice - grown) < 1 << 18\n    twice.result.fetch()\n"
    assert only(run(MEMORY + again)).outcome == "passed"
    hoards = "kept = []\ndef double(x):\n    kept.append(2 * x)\n    return kept[-1]\n"
    assert only(run(MEMORY + again, hoards)).outcome == "passed"
    record = only(run(MEMORY + "    peak_memory(learner.double, grown.result)\n"))
    assert record.outcome == "error" and "no object of the first one" in record.detail


def test_memory_is_measured_where_nothing_that_was_freed_was_kept(run):
    """Once nothing is left to be measured, a worker keeps what it freed; then a test of memory comes after all, that another process
    was to run."""
    more = '''

@points(1, "numerics")
def test_large(learner, reference):
    """Large tensors come and go."""
    x = randn(2048, 1024)
    assert_close(learner.double(x), reference.double(x))
'''
    board = Board()
    assert board.take(board.begin("inputs"), LEADER, 0, leftover=False)  # the first test of the file
    told: list[str] = []
    result = run(
        MEMORY + more,
        chaff("torch.cat([x, x, x, x])[:len(x)] * 2"),
        share=Share(board, board.begin("inputs"), PARTNER),
        watcher=lambda record, _: told.append(record.id),
    )
    assert told == ["hidden::test_large", "hidden::test_memory"]
    assert [test.outcome for test in result.tests] == ["failed", "passed"]
    assert result.tests[0].message.startswith("memory grew by 5 times")


def test_a_worker_that_keeps_what_it_freed_is_not_measured(sandbox):
    process = LearnerProcess(sandbox, Package(main="ex01_double", files={"ex01_double.py": DOUBLE.encode()}), Limits())
    try:
        process.transport()
        assert not process.has_peaked()
        process.hurry(True)
        assert process.has_peaked()
        process.hurry(False)  # too late for this one
        assert process.has_peaked()
        process.renew(even_alive=True)
        process.transport()
        assert not process.has_peaked()
    finally:
        process.close()


def test_the_largest_tensor_is_told(run):
    code = "import torch\n\ndef double(x):\n    wide = torch.cat([x, x, x, x])\n    return wide[: len(x)] * 2\n"
    record = only(run(MEMORY, code))
    assert record.message.endswith("the largest tensor, [4096, 512] with 8 MiB, is made by `cat` in line 4 of ex01_double.py")


def test_memory_of_a_process_that_is_gone_is_no_good_mark(run, monkeypatch):
    source = """
    import os, threading, time
    def double(x):
        if x.numel() > 100:
            threading.Thread(target=lambda: (time.sleep(0.05), os._exit(0))).start()
        return 2 * x
    """
    memory = Worker.memory
    monkeypatch.setattr(Worker, "memory", lambda worker, field: (time.sleep(0.5 * (field == "VmPeak")), memory(worker, field))[1])
    record = only(run(MEMORY.replace("    assert_equal(grown.result.fetch(), 2 * x)\n", ""), source))
    assert (record.outcome, record.message) == ("failed", "the code ended its own process while its memory was measured")


# --- by hand ---

SOFTMAX = "torch.nn.functional.softmax"
BY_HAND = '''
@points(1, "by_hand")
def test_by_hand(learner, by_hand):
    """Written by hand."""
    x = randn(2, 3)
    assert_close(learner.double(x), x.softmax(-1))
    by_hand.assert_clean()
'''
HONEST = "import torch\ndef double(x):\n    e = (x - x.amax(-1, True)).exp()\n    return e / e.sum(-1, True)\n"
CALLING = "import torch.nn.functional as F\ndef double(x):\n    return F.softmax(x, -1)\n"


def test_right_code_by_hand_passes(run):
    assert only(run(BY_HAND, HONEST, calls=[SOFTMAX])).outcome == "passed"


def test_a_forbidden_call_fails_in_every_test_and_is_named(run):
    record = only(run(BY_HAND, CALLING, calls=[SOFTMAX], chaffs={"calls it": CALLING, "honest": HONEST}, category="by_hand"))
    assert record.message == f"the code calls `{SOFTMAX}`, which this exercise asks you to write by hand"
    assert (record.outcome, record.diagnosis) == ("failed", "calls it")
    plain = BY_HAND.replace("    by_hand.assert_clean()\n", "").replace('"by_hand"', '"numerics"').replace(", by_hand", "")
    assert "which this exercise asks you to write by hand" in only(run(plain, CALLING, calls=[SOFTMAX])).message


def test_a_finding_in_the_source_fails_the_by_hand_test_with_its_line(run):
    unused = HONEST + "def unused(x):\n    return torch.nn.functional.softmax(x)\n"
    other = HONEST + "def unused(x):\n    return exec(x)\n"
    chaffs = {"calls it": CALLING, "has exec": other, "has it": unused + "# differs\n"}
    record = only(run(BY_HAND, unused, calls=[SOFTMAX], chaffs=chaffs, category="by_hand"))
    assert record.message == f"line 6 of ex01_double.py uses `{SOFTMAX}`, which this exercise asks you to write by hand"
    assert (record.outcome, record.diagnosis) == ("failed", "has it")


BEFORE = '''
@points(1, "numerics")
@pytest.mark.parametrize("n", [2, 3])
def test_numbers(learner, n):
    """Numbers."""
    x = randn(n, 4)
    assert_close(learner.double(x), x.softmax(-1))
'''
HIDING = """
import inspect
import torch
found = [one for name, one in inspect.getmembers(torch.nn.functional) if name[:4] == "soft" and name[4:] == "max"]
def double(x):
    return found[0](x, -1)
"""


def test_whoever_is_seen_in_the_by_hand_test_is_watched_in_every_other(run):
    assert [record.outcome for record in run(BEFORE + BY_HAND, HIDING, calls=[SOFTMAX]).tests] == ["failed"] * 3
    plain = BEFORE.replace(", n):", ", n, by_hand):") + BY_HAND.replace("learner.double(x)", "x.softmax(-1)")
    result = run(plain, HIDING, calls=[SOFTMAX])  # one of three by-hand tests sees nothing
    assert [record.outcome for record in result.tests] == ["failed", "failed", "passed"]


def test_the_spy_rests_after_the_by_hand_tests_have_passed_in_later_processes_too(run, monkeypatch):
    monkeypatch.setattr(plugin, "WATCHED", 0)
    asked: list[str] = []
    request = Worker.request
    monkeypatch.setattr(
        Worker, "request", lambda worker, one, *more: (asked.append(one.operation), request(worker, one, *more))[1]
    )
    dies = HONEST.replace("    e =", "    if len(x) == 2 and x.shape[1] == 4:\n        import os; os._exit(1)\n    e =")
    result = run(BEFORE + BY_HAND, dies, calls=[SOFTMAX])
    assert [record.outcome for record in result.tests] == ["failed", "passed", "passed"]
    assert [one for one in asked if one != "hurry"] == ["import", "call", "watch", "call", "watch", "call"]
    asked.clear()
    assert outcomes(run(BEFORE, HONEST, calls=[SOFTMAX])) == ["passed"] * 2
    assert "watch" not in asked  # nothing was proven


def test_code_is_watched_until_the_by_hand_tests_of_another_process_have_passed_there(run, monkeypatch):
    monkeypatch.setattr(plugin, "WATCHED", 0)
    board = Board()
    assert board.take(board.begin("inputs"), LEADER, 2, leftover=False)  # the by-hand test, the last one in the file

    def outcomes_beside(marks: Callable[[Share], object]) -> list[str]:
        number = board.begin("inputs")
        assert board.take(number, LEADER, 2, leftover=False)
        marks(Share(board, number, LEADER))
        return [
            record.outcome for record in run(BEFORE + BY_HAND, HIDING, calls=[SOFTMAX], share=Share(board, number, PARTNER)).tests
        ]

    assert outcomes_beside(lambda share: None) == ["failed", "failed", "blocked"]
    assert outcomes_beside(lambda share: share.note_passed(2)) == ["passed", "passed", "blocked"]
    assert outcomes_beside(lambda share: (share.note_passed(2), share.note_seen())) == ["failed", "failed", "blocked"]
    of_another_run = Share(board, 0, LEADER)
    assert outcomes_beside(lambda share: of_another_run.note_passed(2)) == ["failed", "failed", "blocked"]


def test_a_call_that_is_hidden_from_the_by_hand_test_is_seen_in_some_other_and_watched_from_there_on(run):
    many = BEFORE.replace("[2, 3]", "range(5, 45)")
    dodging = (
        HIDING + "def double(x, by_torch=double):\n    return by_torch(x) if len(x) > 2 else x.exp() / x.exp().sum(-1, True)\n"
    )
    firsts = set()
    for seed in range(6):
        *others, proof = [record.outcome for record in run(many + BY_HAND, dodging, calls=[SOFTMAX], seed=seed).tests]
        first = others.index("failed")
        firsts.add(first)
        assert proof == "passed" and first < 30 and set(others[first:]) == {"failed"}
    assert len(firsts) > 2  # nobody knows where


# --- for debuggers ---


def test_a_suite_can_run_in_this_process_for_debuggers(run, tmp_path):
    paths = {"ex01_double.py": str(tmp_path / "exercises/ex01_double.py")}
    record = only(run(learner="import os\ndef double(x):\n    return os.getpid()\n", debug_paths=paths))
    assert record.message == "the output is an int, not a tensor. Is a `return` missing?".replace(". Is a `return` missing?", "")
    assert Path(paths["ex01_double.py"]).exists() is False  # the path is only told to debuggers


# --- suites that stay ---

COUNTED = '''
import builtins
builtins.times_imported = getattr(builtins, "times_imported", 0) + 1

@pytest.fixture(scope="module")
def kept():
    return []

@points(1, "numerics")
@pytest.mark.parametrize("n", [1, 2])
def test_n(learner, kept, n):
    """Counted."""
    kept.append(n)
    if len(kept) > n:
        fail("a fixture of an earlier run is still there")
    assert_equal(learner.double(n), 2 * n)

@points(1, "shape")
def test_last(learner):
    """Last."""
    x = randn(3)
    assert_close(learner.double(x), 2 * x, tolerance=100.0)
'''


def outcomes(result: SuiteRun) -> list[str]:
    assert result.problems == []
    return [record.outcome for record in result.tests]


@pytest.fixture
def imported() -> Iterator[Callable[[], int]]:
    """How often `COUNTED` was imported."""
    builtins.times_imported = 0
    yield lambda: builtins.times_imported
    del builtins.times_imported


def test_a_suite_is_imported_once_for_many_learners_and_nothing_of_one_run_is_left_in_the_next(run, imported):
    three = "def double(x):\n    return 3 * x\n"
    assert outcomes(run(COUNTED)) == ["passed"] * 3
    assert outcomes(run(COUNTED, three, chaffs={"three": three})) == ["failed", "failed", "passed"]
    assert outcomes(run(COUNTED, "import nothing_at_all\n")) == ["blocked"] * 3
    assert outcomes(run(COUNTED)) == ["passed"] * 3
    assert imported() == 1


def test_a_suite_that_changed_is_imported_anew(run, imported):
    run(COUNTED)
    assert outcomes(run(COUNTED.replace("2 * n", "3 * n"))) == ["failed", "failed", "passed"]
    assert outcomes(run(COUNTED)) == ["passed"] * 3
    assert imported() == 2  # the first is still there


def test_after_an_interruption_the_next_run_is_whole(run, imported):
    def stop(record: TestRecord, name: str | None) -> None:
        raise KeyboardInterrupt

    assert outcomes(run(COUNTED)) == ["passed"] * 3
    with pytest.raises(KeyboardInterrupt):
        run(COUNTED, watcher=stop)
    assert outcomes(run(COUNTED)) == ["passed"] * 3
    assert imported() == 2


def test_wanted_tests_run_first_and_each_is_told_as_it_ends(run):
    told = []
    result = run(
        ONE_TEST.replace("_doubled", "_first") + ONE_TEST.replace("_doubled", "_last") + ONE_TEST.replace("_doubled", "_none"),
        "def double(x):\n    return 7 * x\n",
        chaffs={"seven": "def double(x):\n    return 7 * x\n"},
        first=frozenset({"hidden::test_last"}),
        watcher=lambda record, name: told.append((record.id.removeprefix("hidden::test_"), record.outcome, name)),
    )
    assert told == [(name, "failed", "seven") for name in ("last", "first", "none")]
    assert [record.id.removeprefix("hidden::test_") for record in result.tests] == ["first", "last", "none"]


def test_a_fixture_that_ends_pytest_is_a_fault_of_the_suite_and_the_next_run_is_whole(run):
    bad = """
    @pytest.fixture
    def bad():
        pytest.exit("enough")

    @points(4, "shape")
    def test_ends(bad):
        \"\"\"Ends.\"\"\"
    """
    (problem,) = run(bad).problems
    assert "Exit" in problem and "enough" in problem
    assert outcomes(run()) == ["passed"]
