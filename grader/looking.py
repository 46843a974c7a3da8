"""Shows what a learner's own code makes: runs the look of an exercise on it, in its jail. Judges nothing."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec

from grader.course import Course, Exercise
from grader.grading.grade import Files
from grader.grading.materials import MaterialError, make_suite, read_materials
from grader.sandbox.client import Sandbox, WorkerGone
from grader.sandbox.remote import ForbiddenCall, LearnerError, Remote, Session
from grader.submission import SourceFile
from grader.suite.process import LearnerProcess
from grader.suite.sentences import fit, learner_error


class Block(msgspec.Struct, frozen=True):
    """A few lines to show; `good` is False for the sentence that says why there are no more."""

    text: str
    good: bool = True


def blocks(course: Course, exercise: Exercise, files: Files, sandbox: Sandbox) -> Iterator[Block]:
    """What there is to see, block by block; at the end, if the learner's code failed, a sentence about that."""
    script = _script(course.look_path(exercise))
    materials = read_materials(course, exercise)
    contents: dict[str, bytes] = {}
    for one in (*materials.prerequisites, exercise):
        file = files(one.file)
        if isinstance(file, SourceFile):
            contents[f"{one.file}.py"] = file.content
        elif one is exercise:
            raise MaterialError(file.message)
    package = make_suite(course, materials, contents, seed=0).learner
    package = msgspec.structs.replace(package, forbidden={})
    process = LearnerProcess(sandbox, package, materials.limits)
    try:
        process.start(materials.exercise_seconds)
        learner = Remote(Session(process.transport))
        for text in script.look(learner):
            yield Block(text)
    except LearnerError as error:
        yield Block(fit(learner_error(error, package)) or "", good=False)
    except (WorkerGone, ForbiddenCall) as error:
        yield Block(str(error), good=False)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        # What the code answered is not what a look can draw; `check` says in which way.
        yield Block(
            f"the answers cannot be shown ({type(error).__name__}: {error}); check {exercise.label} says more", good=False
        )
    finally:
        process.close()


def _script(path: Path) -> ModuleType:
    if not path.is_file():
        raise MaterialError(f"{path}: there is nothing to look at in this exercise")
    spec = importlib.util.spec_from_file_location(f"look_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
