"""Loads a learner's own exercises into this process, and tells in a sentence what goes wrong in them."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

from grader.course import Course, Exercise
from grader.sandbox.program import Program
from grader.submission import Problem, SourceFile

PACKAGE = "exercises"
GIVEN = ("config.py", "text.py")
Files = Callable[[str], SourceFile | Problem]


class PlayingError(Exception):
    """Something that a learner can mend; `str` is the sentence that says what."""


class OwnCode:
    """The exercises that were asked for and all that these build on, as modules of one package."""

    def __init__(self, course: Course, files: Files, folder: Path, numbers: Sequence[int], package: str = PACKAGE) -> None:
        """`files(name)` are what lies in `folder`; `package` is the name that the modules get.

        Raises `PlayingError` if an exercise is missing or not solved yet, and says which: all of them.
        """
        self.course = course
        wanted = {one.number: one for number in numbers for one in _with_prerequisites(course, course.exercise(number))}
        self._exercises = wanted
        contents = {name: (course.exercises_dir / name).read_bytes() for name in GIVEN}
        paths = {name: str(course.exercises_dir / name) for name in GIVEN}
        problems: list[str] = []
        for _, exercise in sorted(wanted.items()):
            file = files(exercise.file)
            if isinstance(file, Problem):
                problems.append(file.message)
                continue
            contents[f"{exercise.file}.py"] = file.content
            paths[f"{exercise.file}.py"] = str(folder / file.place)
            missing = unsolved(file.content)
            if missing:
                problems.append(f"{exercise.label} ({', '.join(missing)})")
        if problems:
            raise PlayingError(f"this runs your own code, and not all of it is written yet: {'; '.join(problems)}")
        self._program = Program(package, contents, paths)
        self._program.uninstall()  # what an earlier one may have left in `sys.modules`
        self._program.install()

    def file(self, number: int) -> ModuleType:
        """The module of an exercise."""
        return self.module(self._exercises[number].file)

    def module(self, name: str) -> ModuleType:
        """A module by its name, such as "config"."""
        with self.blamed():
            return self._program.module(name)

    def close(self) -> None:
        """Forget the package."""
        self._program.uninstall()

    @contextlib.contextmanager
    def blamed(self) -> Iterator[None]:
        """Whatever the learner's code raises in here becomes a `PlayingError` with the place in that code; and so does what goes wrong
        with its answers."""
        try:
            yield
        except (KeyboardInterrupt, GeneratorExit, PlayingError):
            raise
        except BaseException as error:
            sentence = self._sentence(error)
            if sentence is None:
                raise
            raise PlayingError(sentence) from None

    def _sentence(self, error: BaseException) -> str | None:
        stub = re.match(r"EX(\d\d): (.*)", str(error)) if isinstance(error, NotImplementedError) else None
        if stub:
            return f"exercise {stub[1]} is not solved yet: `{stub[2]}` is still as the stub has it"
        own = {path: name for name, path in self._program.paths.items()}
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in own]
        place = None
        if frames:
            place = own[frames[-1].filename], frames[-1].lineno
        elif isinstance(error, SyntaxError) and error.filename in own:
            place = own[error.filename], error.lineno
        words = str(error).strip().splitlines()
        said = f"{type(error).__name__}{': ' + words[0][:300] if words else ''}"
        if place is None and isinstance(error, AttributeError | IndexError | KeyError | RuntimeError | TypeError | ValueError):
            return f"an answer of your code cannot be used ({said}); `python -m grader check` may say more"
        if place is None:
            return None
        number = re.match(r"ex(\d\d)_", place[0])
        more = f"; `python -m grader check {number[1]}` may say more" if number else ""
        return f"your {place[0]}, line {place[1]}, raised {said}{more}"


def unsolved(source: bytes) -> list[str]:
    """What in a file is still a stub: names such as "train" or "RMSNorm", each once."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # loading it will tell
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            text = node.exc.args[0]
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                stub = re.fullmatch(r"EX\d\d: (\w+)[\w.]*", text.value)
                if stub and getattr(node.exc.func, "id", "") == "NotImplementedError":
                    found[stub[1]] = None
    return list(found)


def _with_prerequisites(course: Course, exercise: Exercise) -> tuple[Exercise, ...]:
    return (*course.prerequisites_of(exercise), exercise)


def use_all_cores() -> None:
    """The grader's processes compute on one core; playing is alone here and may have more."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(min(cores, 4))  # the models are small: more would wait for each other
