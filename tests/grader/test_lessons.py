"""Hints: three to a lesson, shown one after the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader.course import Course, load_course
from grader.lessons import LessonError, forget_hints, hints_shown, next_hint, read_hints

LESSON = """# 06 · Repeat heads

Two sentences.

## Traps

### Hint 9

## Hints

Open them one at a time.

### Hint 1

Look at the axes.

```python
# Not a heading
## Hints
### Hint 7
```

### Hint 2: closer

- `expand` copies nothing.

### Hint 3

One line is enough.

## Further reading

A paper.
"""


def tables(*numbers: int) -> str:
    return "".join(f'[[exercise]]\nnumber = {n}\nfile = "ex{n:02d}_e"\ntitle = "T"\npoints = 1\nnames = ["f"]\n' for n in numbers)


@pytest.fixture
def course(tmp_path) -> Course:
    (tmp_path / "course.toml").write_text('[course]\nname = "Small"\nschema = 1\n' + tables(6, 7))
    (tmp_path / "exercises").mkdir()
    for number in (6, 7):
        (tmp_path / "exercises" / f"ex{number:02d}_e.md").write_text(LESSON)
    return load_course(tmp_path)


def state(course: Course) -> Path:
    return course.root / ".ladder" / "hints.json"


def test_three_hints_are_read(course):
    assert read_hints(course, course.exercise(6)) == (
        "Look at the axes.\n\n```python\n# Not a heading\n## Hints\n### Hint 7\n```",
        "- `expand` copies nothing.",
        "One line is enough.",
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("## Hints\n\nOpen", "## Help\n\nOpen", "has one section '## Hints', this one has 0"),
        ("## Further reading", "## Hints", "this one has 2"),
        ("### Hint 3\n\nOne line is enough.\n", "", "has three hints, .*; this one has 2"),
        ("### Hint 3", "### Hint 4", "'### Hint 4' is number 3 of the hints"),
        ("### Hint 2: closer", "### Hint 1", "'### Hint 1' is number 2 of the hints"),
        ("## Further reading", "### Hint 4\n\nMore.\n", "'### Hint 4' is number 4 of the hints"),
        ("### Hint 2: closer", "### Clue 2", "'### Clue 2' stands under '## Hints'"),
        ("One line is enough.", "  ", "hint 3 is empty"),
    ],
)
def test_a_lesson_without_its_three_hints_is_refused(course, old, new, message):
    path = course.lesson_path(course.exercise(6))
    assert LESSON.count(old) == 1
    path.write_text(LESSON.replace(old, new))
    with pytest.raises(LessonError, match=message) as caught:
        next_hint(course, course.exercise(6))
    assert str(path) in str(caught.value)
    assert not state(course).exists()


def test_a_lesson_that_cannot_be_read_is_said(course):
    path = course.lesson_path(course.exercise(6))
    path.write_bytes(b"\xff")
    with pytest.raises(LessonError, match="cannot be read"):
        read_hints(course, course.exercise(6))
    path.unlink()
    with pytest.raises(LessonError, match="there is no such lesson"):
        read_hints(course, course.exercise(6))


def test_hints_come_one_after_the_other_and_the_last_is_repeated(course):
    exercise, other = course.exercise(6), course.exercise(7)
    seen = [next_hint(course, exercise) for _ in range(5)]
    assert [(hint.number, hint.is_last, hint.repeated) for hint in seen] == [
        (1, False, False),
        (2, False, False),
        (3, True, False),
        (3, True, True),
        (3, True, True),
    ]
    assert [hint.text for hint in seen[:3]] == list(read_hints(course, exercise))
    assert (hints_shown(course, exercise), hints_shown(course, other)) == (3, 0)
    assert next_hint(course, other).number == 1
    assert json.loads(state(course).read_text()) == {"ex06_e": 3, "ex07_e": 1}
    forget_hints(course, exercise)
    assert next_hint(course, exercise).number == 1
    assert hints_shown(course, other) == 1
    assert [path.name for path in state(course).parent.iterdir()] == ["hints.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[1, 2]",
        b"3",
        b'{"ex06_e": -1}',
        b'{"ex06_e": 4}',
        b'{"ex06_e": true}',
        b'{"ex06_e": "2"}',
        b'{"ex06_e": 1.0}',
        b'{"ex06_e": ' + b"9" * 5000 + b"}",
        b"[" * 50_000,
        b" " * 200_000 + b'{"ex06_e": 2}',
    ],
)
def test_a_damaged_memory_starts_again_and_is_repaired(course, content):
    state(course).parent.mkdir()
    state(course).write_bytes(content)
    exercise = course.exercise(6)
    assert hints_shown(course, exercise) == 0
    assert [next_hint(course, exercise).number for _ in range(2)] == [1, 2]
    assert json.loads(state(course).read_text()) == {"ex06_e": 2}


def test_a_damaged_entry_costs_only_itself(course):
    state(course).parent.mkdir()
    state(course).write_text('{"ex06_e": "x", "ex07_e": 2}')
    assert next_hint(course, course.exercise(6)).number == 1
    assert next_hint(course, course.exercise(7)).number == 3


@pytest.mark.parametrize("place", [".ladder", ".ladder/hints.json"])
def test_a_memory_that_cannot_be_kept_still_shows_hints(course, place):
    if place == ".ladder":
        (course.root / place).write_text("a file")
    else:
        (course.root / place).mkdir(parents=True)
    assert [next_hint(course, course.exercise(6)).number for _ in range(2)] == [1, 1]
    assert not list(course.root.rglob(".hints.*"))
