"""The learner's kit: what is in it, and above all what is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.authoring.kit import _without_timed, make_kit
from grader.authoring.stubs import AuthoringError
from grader.course import Course, load_course

SOLUTION = 'def repeat_kv(x):\n    """Doc."""\n    # BEGIN SOLUTION\n    return secret_idea(x)\n    # END SOLUTION\n'
LONG = [
    "    first = x.unsqueeze(3)",
    "    then = first.expand(-1)",
    "    return then.reshape(2)",
]  # three lines of a right solution
STUB = 'def repeat_kv(x):\n    """Doc."""\n    raise NotImplementedError("EX06: repeat_kv")\n'

README = """# Small

For instructors too.

## The ladder

| | exercise | you write | it teaches |
|---|---|---|---|
| 06 | [T](exercises/ex06_repeat_kv.md) | `repeat_kv` | sharing |
| 07 | [Draft](exercises/ex07_draft.md) | `draft` | nothing yet |

And then it talks.

## For learners

`make check EX=06`

### What a check does

It compares with solutions.

## Installing

Python.

## For instructors

Answers.
"""
MAKEFILE = """.PHONY: check verify setup
TORCH ?=
check:
\tpython -m grader check

# A learner's kit holds none of the following, for a reason.
verify:
\tpython -m grader verify

# A learner's kit holds this again.
setup:
\tpip install
"""

TREE = {
    "course.toml": '[course]\nname = "Small"\nschema = 1\n[[exercise]]\nnumber = 6\nfile = "ex06_repeat_kv"\ntitle = "T"\n'
    'points = 1\nnames = ["repeat_kv"]\n',
    "Makefile": MAKEFILE,
    "pyproject.toml": "[project]\n",
    "constraints.txt": "torch==2\n",
    "README.md": README,
    "LICENSE": "MIT\n",
    "exercises/__init__.py": '"""Yours."""\n',
    "exercises/config.py": "an old copy\n",
    "exercises/ex06_repeat_kv.py": "def repeat_kv(x):\n    return an_attempt(x)\n",
    "exercises/ex06_repeat_kv.md": "# 06\n",
    "exercises/ex07_draft.py": "draft\n",
    "solutions/__init__.py": '"""References."""\n',
    "solutions/config.py": '"""Sizes."""\n',
    "solutions/ex06_repeat_kv.py": SOLUTION,
    "solutions/wheats/ex06_repeat_kv/other.py": "wheat\n",
    "solutions/chaffs/ex06_repeat_kv/tiled.py": "chaff\n",
    "tests/public/conftest.py": "# fixtures\n",
    "tests/public/test_ex06_repeat_kv.py": "def test_one(learner): ...\n",
    "tests/public/test_ex07_draft.py": "draft\n",
    "tests/hidden/test_ex06_repeat_kv.py": "def test_hidden(learner): ...\n",
    "tests/grader/test_course.py": "pass\n",
    "grader/__init__.py": '"""The grader."""\n',
    "grader/__main__.py": "from grader.cli import main\n",
    "grader/cli.py": "from grader.sandbox import wire\n\n\ndef stubs():\n    from grader.authoring import stubs\n",
    "grader/sandbox/__init__.py": "",
    "grader/sandbox/wire.py": "WIRE = 1\n",
    "grader/sandbox/__pycache__/wire.cpython-311.pyc": "cache",
    "grader/.cache": "x",
    "grader/report.py": "from grader.reporting import page\n",
    "grader/reporting/__init__.py": "",
    "grader/reporting/page.py": "PAGE = 1\n",
    "grader/authoring/__init__.py": "",
    "grader/authoring/stubs.py": "MARK = '# BEGIN SOLUTION'\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    "docs/notes.md": "notes\n",
    "results/ada/ex06.json": "{}\n",
}

KIT = [
    ".github/workflows/check.yml",
    ".gitignore",
    "LICENSE",
    "Makefile",
    "README.md",
    "constraints.txt",
    "course.toml",
    "exercises/__init__.py",
    "exercises/config.py",
    "exercises/ex06_repeat_kv.md",
    "exercises/ex06_repeat_kv.py",
    "grader/__init__.py",
    "grader/__main__.py",
    "grader/cli.py",
    "grader/sandbox/__init__.py",
    "grader/sandbox/wire.py",
    "pyproject.toml",
    "tests/public/conftest.py",
    "tests/public/test_ex06_repeat_kv.py",
]


@pytest.fixture
def course(tmp_path) -> Course:
    for name, content in TREE.items():
        path = tmp_path / "course" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return load_course(tmp_path / "course")


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_kit_holds_what_a_learner_needs_and_nothing_else(course, tmp_path):
    out = tmp_path / "new" / "kit"
    assert make_kit(course, out) == files(out) == KIT
    assert (out / "exercises/ex06_repeat_kv.py").read_text() == STUB  # fresh, not the attempt that lies in exercises/
    assert (out / "exercises/config.py").read_text() == '"""Sizes."""\n'
    assert "check" in (out / "Makefile").read_text() and "verify" not in (out / "Makefile").read_text()
    assert "| 06 | [T](exercises/ex06_repeat_kv.md) | 1 | `repeat_kv` | sharing |" in (out / "README.md").read_text()
    for gone in ("Draft", "solutions", "Answers"):
        assert gone not in (out / "README.md").read_text()
    assert load_course(out).exercises == course.exercises
    for name in KIT:
        content = (out / name).read_text()
        for secret in ("secret_idea", "an_attempt", "wheat", "chaff", "test_hidden", "BEGIN SOLUTION", "verify"):
            assert secret not in content
    assert os.listdir(out.parent) == ["kit"]
    assert out.stat().st_mode & 0o055 == 0o055  # others may read it


def test_an_empty_folder_is_filled(course, tmp_path):
    (tmp_path / "kit").mkdir()
    assert make_kit(course, tmp_path / "kit") == files(tmp_path / "kit")


@pytest.mark.parametrize("kind", ["full", "file", "link", "dangling"])
def test_nothing_is_overwritten(course, tmp_path, kind):
    out = tmp_path / "kit"
    target = tmp_path / "target"
    if kind == "full":
        out.mkdir()
        (out / "precious.txt").write_text("mine")
    elif kind == "file":
        out.write_text("mine")
    else:
        out.symlink_to(target)
        if kind == "link":
            target.mkdir()
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(AuthoringError, match="give a new or an empty folder"):
        make_kit(course, out)
    assert sorted(os.listdir(tmp_path)) == before
    assert files(tmp_path / "kit") == (["precious.txt"] if kind == "full" else [])


@pytest.mark.parametrize("folder", ["exercises", "solutions", "tests/public", "grader/kit"])
def test_a_kit_is_not_put_into_the_courses_own_folders(course, folder):
    with pytest.raises(AuthoringError, match="within the course's own"):
        make_kit(course, course.root / folder / "kit")


@pytest.mark.parametrize(
    "name",
    [
        "LICENSE",
        "constraints.txt",
        "exercises/ex06_repeat_kv.md",
        "tests/public/test_ex06_repeat_kv.py",
        "grader/__init__.py",
    ],
)
def test_a_course_that_lacks_a_file_gives_no_kit(course, tmp_path, name):
    (course.root / name).unlink()
    with pytest.raises(AuthoringError, match=f"lacks what a kit holds: {name}"):
        make_kit(course, tmp_path / "kit")
    assert os.listdir(tmp_path) == ["course"]


def test_a_failure_half_way_leaves_nothing(course, tmp_path, monkeypatch):
    write_bytes = Path.write_bytes

    def fill_the_disk(path: Path, content: bytes) -> int:
        if path.name == "wire.py":
            raise OSError(28, "No space left on device")
        return write_bytes(path, content)

    monkeypatch.setattr(Path, "write_bytes", fill_the_disk)
    with pytest.raises(AuthoringError, match="No space left"):
        make_kit(course, tmp_path / "kit")
    assert os.listdir(tmp_path) == ["course"]


def test_a_folder_that_is_filled_meanwhile_is_left_alone(course, tmp_path, monkeypatch):
    out = tmp_path / "kit"
    rename = os.rename

    def fill_first(old, new):
        out.mkdir()
        (out / "precious.txt").write_text("mine")
        rename(old, new)

    monkeypatch.setattr(os, "rename", fill_first)
    with pytest.raises(AuthoringError, match="cannot be written"):
        make_kit(course, out)
    assert files(out) == ["precious.txt"]
    assert sorted(os.listdir(tmp_path)) == ["course", "kit"]


def test_a_broken_solution_gives_no_kit(course, tmp_path):
    (course.root / "solutions/ex06_repeat_kv.py").write_text("def repeat_kv(x):\n    return x\n")
    with pytest.raises(AuthoringError, match="the stub would be the solution"):
        make_kit(course, tmp_path / "kit")
    assert os.listdir(tmp_path) == ["course"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tests/public/conftest.py", "hidden", "give away tests/hidden"),
        ("grader/sandbox/wire.py", SOLUTION + "\n", "give away solutions/ex06_repeat_kv.py"),
        ("tests/public/conftest.py", "chaff\n", "give away solutions/chaffs/ex06_repeat_kv/tiled.py"),
        ("exercises/ex06_repeat_kv.md", "# 06\n```\n# BEGIN SOLUTION\n```\n", "would give a solution away"),
        ("exercises/ex06_repeat_kv.md", "# 06\nAs test_hidden shows.\n", "'test_hidden', so it would give away tests/hidden"),
        (
            "exercises/ex06_repeat_kv.md",
            "# 06\nEvery head has\n its own copies.\n",
            "'Every head has its own copies.', so it would",
        ),
        ("exercises/ex06_repeat_kv.md", "# 06\nIs it tiled,\nall of it?\n", "give away solutions/chaffs/ex06_repeat_kv/named.py"),
        (
            "tests/public/test_ex06_repeat_kv.py",
            "    " + "\n        ".join(LONG),
            "'first = x.unsqueeze.3.' and more, so it would give",
        ),
    ],
)
def test_a_secret_in_the_wrong_place_gives_no_kit(course, tmp_path, name, content, message):
    hidden = course.root / "tests/hidden/test_ex06_repeat_kv.py"
    hidden.write_text('def test_hidden(learner):\n    """Every head has its own\n    copies."""\n')
    (course.root / "solutions/chaffs/ex06_repeat_kv/named.py").write_text('"""Is it tiled, all\nof it?"""\n')
    (course.root / "solutions/wheats/ex06_repeat_kv/other.py").write_text("def repeat_kv(x):\n" + "\n".join(LONG))
    (course.root / name).write_text(hidden.read_text() if content == "hidden" else content)
    with pytest.raises(AuthoringError, match=message):
        make_kit(course, tmp_path / "kit")


@pytest.mark.parametrize("name", ["grader/sandbox/extra.py", "LICENSE"])
def test_links_are_not_copied(course, tmp_path, name):
    (course.root / name).unlink(missing_ok=True)
    (course.root / name).symlink_to(course.root / "solutions/ex06_repeat_kv.py")
    with pytest.raises(AuthoringError, match="symbolic link"):
        make_kit(course, tmp_path / "kit")


@pytest.mark.parametrize(
    ("name", "line", "module"),
    [
        ("grader/cli.py", "from grader.authoring.stubs import MARK", "grader.authoring.stubs"),
        ("grader/cli.py", "from grader import report", "grader.report"),
        ("grader/cli.py", "import grader.reporting.page as page", "grader.reporting.page"),
        ("grader/cli.py", "from . import report", "grader.report"),
        ("grader/sandbox/wire.py", "from ..reporting import page", "grader.reporting"),
    ],
)
def test_a_grader_that_would_not_start_without_what_is_left_out_gives_no_kit(course, tmp_path, name, line, module):
    (course.root / name).write_text(f"import os\n{line}\n")
    with pytest.raises(AuthoringError, match=f"{name}, line 2: imports {module}, which the kit leaves out"):
        make_kit(course, tmp_path / "kit")


def test_the_kit_does_not_tell_what_is_timed_and_against_what():
    head = '[course]\nname = "C"\n\n[[exercise]]\nnumber = 1\n'
    timed = '\n[[exercise.timed]]\ntest = "test_fast"\ncpu = { slow = "slowly", size = 3 }\n'
    rest = '\n[[exercise.by_hand]]\ncalls = ["torch.x"]\n\n[[exercise]]\nnumber = 2\n'
    assert _without_timed((head + timed + timed + rest + timed).encode()).decode().replace("\n\n", "\n") == (head + rest).replace(
        "\n\n", "\n"
    )
    with pytest.raises(AuthoringError, match="on a line of its own"):
        _without_timed((head + 'timed = [{ test = "test_fast" }]\n').encode())
