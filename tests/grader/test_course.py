"""course.toml: what is read from it, and what is said of every mistake in it."""

from __future__ import annotations

import pickle
from pathlib import Path

import msgspec
import pytest

from grader.course import COURSE_FILE, Course, CourseError, LimitOverrides, Limits, TimedOn, load_course

ROOT = Path(__file__).resolve().parents[2]

HEAD = """
[course]
name = "Small"
schema = 1
"""

EXERCISE = """
[[exercise]]
number = 6
file = "ex06_repeat_kv"
title = "Repeat"
points = 10
names = ["repeat_kv", "other"]
"""


def write(folder: Path, text: str | bytes) -> Path:
    (folder / "course.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def mistakes(folder: Path, text: str | bytes) -> str:
    with pytest.raises(CourseError) as caught:
        load_course(write(folder, text))
    assert str(folder / "course.toml") in str(caught.value)
    return str(caught.value)


def ladder(folder: Path) -> Course:
    """Exercises 3, 5, 6 and 10, listed backwards; 10 needs 5 and 6, and 5 needs 3."""
    needs = {10: [6, 5], 6: [], 5: [3], 3: []}
    tables = [
        f'[[exercise]]\nnumber = {n}\nfile = "ex{n:02d}_e"\ntitle = "T"\npoints = 1\nnames = ["f"]\nprerequisites = {p}\n'
        for n, p in needs.items()
    ]
    return load_course(write(folder, HEAD + "".join(tables)))


def test_the_projects_own_course():
    course = load_course(ROOT)
    assert course.name == "Attention Ladder"
    assert {6, 7, 8} <= {exercise.number for exercise in course.exercises}
    for number, names in [
        (6, ("repeat_kv",)),
        (7, ("attention_weights", "scaled_dot_product_attention")),
        (8, ("causal_mask", "padding_mask", "combine_masks", "show_mask")),
    ]:
        exercise = course.exercise(number)
        assert (exercise.points, exercise.names, exercise.feedback, exercise.prerequisites) == (
            10,
            names,
            "explain",
            (),
        )
    attention = course.exercise(7)
    for name in attention.names:
        assert attention.forbidden_calls(name) == (
            "torch.nn.functional.scaled_dot_product_attention",
            "torch.nn.MultiheadAttention",
        )


TIMED = 'timed = [{test = "test_a", title = "T", names = ["other"], points = 1, cpu = {slow = "loops", size = 9}}]\n'


def test_timed_tests_are_declared(tmp_path):
    more = TIMED.replace(
        "]\n", ', {test = "test_b", title = "U", names = ["other"], points = 0.5, cuda = {slow = "s", size = 1, gap = 2}}]\n'
    )
    (exercise,) = load_course(write(tmp_path, HEAD + EXERCISE + more)).exercises
    first, second = exercise.timed
    assert (first.test, first.title, first.names, first.points) == ("test_a", "T", ("other",), 1)
    assert (first.on("cpu"), first.on("cuda")) == (TimedOn(slow="loops", size=9, gap=1.5), None)
    assert (second.on("cpu"), second.on("cuda")) == (None, TimedOn(slow="s", size=1, gap=2.0))


@pytest.mark.parametrize(
    ("old", "new", "where", "said"),
    [
        ('names = ["other"], ', "", "timed[0].names", "found nothing;"),
        ('["other"]', '["g"]', "timed[0].names (ex06_repeat_kv)", "repeat_kv, other"),
        (", cpu = {", ", tpu = {", "timed[0].tpu", "unknown field"),
        (', cpu = {slow = "loops", size = 9}', "", "timed[0] (ex06_repeat_kv)", "neither cpu nor cuda"),
        ("size = 9", "size = 0", "timed[0].cpu.size", "found 0;"),
        ("size = 9", "size = 9, gap = 1.1", "timed[0].cpu.gap", "found 1.1;"),
        ('slow = "loops"', 'slow = "../x"', "timed[0].cpu.slow", "without .py"),
        ("test_a", "speed", "timed[0].test", "test_..."),
        (
            "]\n",
            ', {test = "test_a", title = "T", names = ["other"], points = 1, cpu = {slow = "s", size = 9}}]\n',
            "timed[1].test",
            "once",
        ),
    ],
)
def test_a_wrong_timed_test_is_told(tmp_path, old, new, where, said):
    with pytest.raises(CourseError) as error:
        load_course(write(tmp_path, HEAD + EXERCISE + TIMED.replace(old, new)))
    assert f"exercise[0].{where}" in str(error.value) and said in str(error.value)


def test_a_course_survives_pickling_and_hashing(tmp_path):
    course = ladder(tmp_path)
    assert pickle.loads(pickle.dumps(course)) == course
    assert len({*course.exercises, *course.exercises}) == 4


def test_defaults_and_order(tmp_path):
    course = ladder(tmp_path)
    assert [exercise.number for exercise in course.exercises] == [3, 5, 6, 10]
    assert course.limits == Limits()
    assert course.exercise(3).feedback == "explain"
    assert course.exercise(3).by_hand == ()


@pytest.mark.parametrize("spec", [6, "6", "06", "ex06", "EX06", "ex6", "ex06_e", "ex06_e.py", " 06 "])
def test_an_exercise_is_found_by_every_spelling(tmp_path, spec):
    assert ladder(tmp_path).exercise(spec).number == 6


@pytest.mark.parametrize("spec", [7, 0, -6, True, "", "x", "ex", "006", "6.0", "ex06_", "../ex06_e", "٦", 10**30, None])
def test_an_unknown_exercise_is_answered_with_the_known_ones(tmp_path, spec):
    with pytest.raises(CourseError, match=r"03 \(ex03_e\), 05 \(ex05_e\), 06 \(ex06_e\), 10 \(ex10_e\)"):
        ladder(tmp_path).exercise(spec)


def test_prerequisites_are_followed_to_the_end_in_order(tmp_path):
    course = ladder(tmp_path)
    assert [one.number for one in course.prerequisites_of(course.exercise(10))] == [3, 5, 6]
    assert [one.number for one in course.prerequisites_of(course.exercise(5))] == [3]
    assert course.prerequisites_of(course.exercise(3)) == ()


def test_limits_of_an_exercise_replace_only_what_they_name(tmp_path):
    text = HEAD + "[limits]\ncall_seconds = 5\nmemory_mb = 512\n" + EXERCISE + "limits = { memory_mb = 1024 }\n"
    course = load_course(write(tmp_path, text))
    limits = course.limits_for(course.exercise(6))
    assert (limits.call_seconds, limits.memory_mb, limits.max_hangs) == (5.0, 1024, 3)
    assert course.limits.memory_mb == 512


def test_what_a_small_model_must_reach(tmp_path):
    exercise = load_course(write(tmp_path, HEAD + EXERCISE + "training = { steps = 40, loss = 3 }\n")).exercise(6)
    assert (exercise.training.steps, exercise.training.loss) == (40, 3.0)
    assert load_course(write(tmp_path, HEAD + EXERCISE)).exercise(6).training is None


def test_overrides_have_the_same_fields_as_the_limits():
    assert [f.name for f in msgspec.structs.fields(Limits)] == [f.name for f in msgspec.structs.fields(LimitOverrides)]


def test_by_hand_rules_for_some_names_only(tmp_path):
    rules = 'by_hand = [{calls = ["torch.a"], names = ["other"]}, {calls = ["torch.b", "tokenizers"]}]\n'
    exercise = load_course(write(tmp_path, HEAD + EXERCISE + rules)).exercise(6)
    assert exercise.forbidden_calls("repeat_kv") == ("torch.b", "tokenizers")
    assert exercise.forbidden_calls("other") == ("torch.a", "torch.b", "tokenizers")


def test_where_files_lie(tmp_path):
    course = ladder(tmp_path)
    exercise = course.exercise(6)
    assert course.exercise_path(exercise) == tmp_path / "exercises" / "ex06_e.py"
    assert course.lesson_path(exercise) == tmp_path / "exercises" / "ex06_e.md"
    assert course.solution_path(exercise) == tmp_path / "solutions" / "ex06_e.py"
    assert course.wheats_dir(exercise) == tmp_path / "solutions" / "wheats" / "ex06_e"
    assert course.chaffs_dir(exercise) == tmp_path / "solutions" / "chaffs" / "ex06_e"
    assert course.public_test_path(exercise) == tmp_path / "tests" / "public" / "test_ex06_e.py"
    assert course.hidden_test_path(exercise) == tmp_path / "tests" / "hidden" / "test_ex06_e.py"


@pytest.mark.parametrize(
    "file",
    [
        "../ex06_x",
        "ex06_../x",
        "ex06_a/b",
        "/ex06_x",
        "ex06_x.py",
        "ex06_x\\n",
        "ex06_",
        "ex06_X",
        "ex6_x",
        "ex٠٦_x",
        "",
        "ex06_é",
    ],
)
def test_a_file_never_leaves_its_folder(tmp_path, file):
    text = HEAD + EXERCISE.replace('"ex06_repeat_kv"', f'"{file}"')
    assert "exercise[0].file" in mistakes(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "field", "found"),
    [
        ("points = 10", "points = 0", "exercise[0].points (ex06_repeat_kv)", "found 0;"),
        ("points = 10", "points = -1.5", "exercise[0].points (ex06_repeat_kv)", "found -1.5;"),
        ("points = 10", "points = nan", "exercise[0].points", "found nan;"),
        ("points = 10", "points = inf", "exercise[0].points", "found inf;"),
        ("points = 10", "points = true", "exercise[0].points", "found true;"),
        ("points = 10", 'points = "10"', "exercise[0].points", 'found "10";'),
        ("points = 10", "", "exercise[0].points", "found nothing;"),
        ("points = 10", "points = 2026-01-01", "exercise[0].points", "found 2026-01-01"),
        ("points = 10", f"points = 0x{'f' * 5000}", "exercise[0].points", "found a number of more than 60 digits"),
        ("points = 10", "pionts = 10", "exercise[0].pionts", "did you mean points?"),
        ("points = 10", 'points = 10\n"a\\nb" = 1', 'exercise[0]."a\\nb"', "found an unknown field"),
        ("number = 6", "number = 0", "exercise[0].number", "found 0;"),
        ("number = 6", "number = 100", "exercise[0].number", "found 100;"),
        ("number = 6", "number = 6.0", "exercise[0].number", "found 6.0;"),
        ("number = 6", "number = 7", "exercise[0].file (ex06_repeat_kv)", '"ex07_..."'),
        ('title = "Repeat"', 'title = ""', "exercise[0].title", 'found "";'),
        ('title = "Repeat"', 'title = "a\\nb"', "exercise[0].title", 'found "a\\nb";'),
        ('title = "Repeat"', 'title = "a\\u001b[2J"', "exercise[0].title", "one line"),
        ('names = ["repeat_kv", "other"]', "names = []", "exercise[0].names", "found an empty list;"),
        ('names = ["repeat_kv", "other"]', 'names = ["a", "a"]', "exercise[0].names", 'found "a";'),
        ('names = ["repeat_kv", "other"]', 'names = ["a-b", "class"]', "exercise[0].names", 'found "a-b", "class";'),
        ('names = ["repeat_kv", "other"]', "names = [1]", "exercise[0].names", "found [1];"),
        ('names = ["repeat_kv", "other"]', 'names = "f"', "exercise[0].names", 'found "f";'),
        ("points = 10", "points = 10\nprerequisites = [6]", "exercise[0].prerequisites", "found 6;"),
        ("points = 10", "points = 10\nprerequisites = [3]", "exercise[0].prerequisites", "found 3;"),
        ("points = 10", 'points = 10\nfeedback = "all"', "exercise[0].feedback", '"explain", "sentence" or "verdict"'),
        ("points = 10", "points = 10\ntraining = 3", "exercise[0].training", "found 3;"),
        ("points = 10", "points = 10\ntraining = {steps = 3}", "exercise[0].training.loss", "found nothing;"),
        ("points = 10", "points = 10\ntraining = {steps = 0, loss = 3.0}", "exercise[0].training.steps", "found 0;"),
        ("points = 10", "points = 10\ntraining = {steps = 3, loss = -1}", "exercise[0].training.loss", "found -1;"),
        ("points = 10", "points = 10\ntraining = {steps = 3, loss = 3, more = 1}", "exercise[0].training.more", "unknown"),
        ("points = 10", "points = 10\nby_hand = 3", "exercise[0].by_hand", "found 3;"),
        ("points = 10", "points = 10\nby_hand = [3]", "exercise[0].by_hand[0]", "found 3;"),
        ("points = 10", "points = 10\nby_hand = [{}]", "exercise[0].by_hand[0].calls", "found nothing;"),
        ("points = 10", "points = 10\nby_hand = [{calls = []}]", "exercise[0].by_hand[0].calls", "an empty list"),
        ("points = 10", 'points = 10\nby_hand = [{calls = ["a..b"]}]', "exercise[0].by_hand[0].calls", 'found "a..b"'),
        (
            "points = 10",
            'points = 10\nby_hand = [{calls = ["a.b"], names = ["g"]}]',
            "exercise[0].by_hand[0].names (ex06_repeat_kv)",
            "repeat_kv, other",
        ),
        ("points = 10", "points = 10\ntimed = 3", "exercise[0].timed", "found 3;"),
        ("points = 10", "points = 10\nlimits = {files = 1}", "exercise[0].limits.files", "found 1;"),
        ("points = 10", "points = 10\nlimits = 3", "exercise[0].limits", "found 3;"),
        ("points = 10", "points = 10\nlimits = {memory = 3}", "exercise[0].limits.memory", "did you mean memory_mb?"),
        ("points = 10", "points = 10\nlimits = {max_hangs = 0}", "exercise[0].limits.max_hangs", "found 0;"),
        ("points = 10", "points = 10\nlimits = {call_seconds = 200}", "exercise[0].limits", "call_seconds 200"),
        ("schema = 1", "schema = 2", "course.schema", "found 2;"),
        ('name = "Small"', "", "course.name", "found nothing;"),
        ("[course]", "[cuorse]", "cuorse", "did you mean course?"),
    ],
)
def test_a_mistake_is_named_with_its_field_what_was_found_and_what_is_allowed(tmp_path, old, new, field, found):
    message = mistakes(tmp_path, (HEAD + EXERCISE).replace(old, new, 1))
    assert field in message
    assert found in message
    assert "allowed:" in message


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("call_seconds = 0", "limits.call_seconds"),
        ("call_seconds = nan", "limits.call_seconds"),
        ("exercise_seconds = 1e9", "limits.exercise_seconds"),
        ("exercise_seconds = 1", "limits: found call_seconds 10 and exercise_seconds 1"),
        ("memory_mb = 1.5", "limits.memory_mb"),
        ("cpu_seconds = -1", "limits.cpu_seconds"),
        ("output_kb = 1000000", "limits.output_kb"),
        ("max_hangs = true", "limits.max_hangs"),
        ("max_hang = 3", "limits.max_hang"),
    ],
)
def test_limits_are_checked(tmp_path, line, field):
    assert field in mistakes(tmp_path, HEAD + f"[limits]\n{line}\n" + EXERCISE)


def test_numbers_and_files_are_unique(tmp_path):
    message = mistakes(tmp_path, HEAD + EXERCISE + EXERCISE)
    assert "exercise[1].number: found 6, as in exercise[0]" in message
    assert 'exercise[1].file: found "ex06_repeat_kv", as in exercise[0]' in message


def test_prerequisites_exist_are_smaller_and_listed_once(tmp_path):
    later = EXERCISE.replace("6", "9").replace("points", "prerequisites = [6, 6, 7, 9, 12]\npoints")
    message = mistakes(tmp_path, HEAD + EXERCISE + later)
    assert "exercise[1].prerequisites (ex09_repeat_kv): found 6, 7, 9, 12; allowed: numbers of exercises before 9: 6" in message


def test_all_mistakes_are_listed_at_once(tmp_path):
    text = HEAD.replace("schema = 1", "schema = 3") + EXERCISE.replace("10", "-3").replace('"Repeat"', "7")
    with pytest.raises(CourseError) as caught:
        load_course(write(tmp_path, text))
    assert [problem.split(": ")[1].split(" ")[0] for problem in caught.value.problems] == [
        "course.schema",
        "exercise[0].title",
        "exercise[0].points",
    ]
    assert "has 3 mistakes" in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (HEAD, "exercise: found nothing;"),
        ("exercise = []\n" + HEAD, "exercise: found [];"),
        ('exercise = "six"\n' + HEAD, 'exercise: found "six";'),
        ("exercise = [3]\n" + HEAD, "exercise[0]: found 3;"),
        ("[exercise]\nnumber = 6\n" + HEAD, "exercise: found a table;"),
    ],
)
def test_a_course_has_exercises(tmp_path, text, found):
    assert found in mistakes(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HEAD + "points = \n", "line 5, column 10"),
        (HEAD + 'title = "open\n', "line 5, column"),
        (HEAD + "\n\nx = [1, 2", "line 7"),
        (HEAD.encode() + b"x = '\xff'\n", "line 5: not UTF-8"),
        ("a = 1\na = 2\n", "line 2"),
        ("x = " + "[" * 100_000, "not valid TOML"),
        ("x = " + "9" * 5000, "not valid TOML"),
        ("", "course: found nothing"),
    ],
)
def test_what_is_no_toml_is_answered_with_its_line(tmp_path, text, line):
    assert line in mistakes(tmp_path, text)


def test_a_missing_or_unreadable_file_is_said(tmp_path):
    with pytest.raises(CourseError, match="no such file"):
        load_course(tmp_path)
    (tmp_path / "course.toml").mkdir()
    with pytest.raises(CourseError, match="cannot be read"):
        load_course(tmp_path)


def test_a_due_date_has_its_offset(tmp_path):
    text = (ROOT / COURSE_FILE).read_text()
    for due, right in (
        ("2030-01-02T03:04:05+02:00", True),
        ("2030-01-02T03:04:05", False),
        ("2030-01-02", False),
        ('"soon"', False),
    ):
        (tmp_path / COURSE_FILE).write_text(text.replace("number = 6\n", f"number = 6\ndue = {due}\n"))
        if right:
            assert load_course(tmp_path).exercise(6).due.isoformat() == due
        else:
            with pytest.raises(CourseError, match=r"due \(ex06_repeat_kv\): found .* with its offset"):
                load_course(tmp_path)
