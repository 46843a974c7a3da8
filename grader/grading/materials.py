"""Gathers what one exercise is graded with: its suite, reference, chaffs and given files; and the key of a result."""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from grader.course import Course, Exercise
from grader.sandbox.client import Limits, Package
from grader.suite.by_hand import ByHandRule, with_twins
from grader.suite.diagnosis import Chaff
from grader.suite.judge import Timed
from grader.suite.plugin import Suite
from grader.suite.sentences import PROPS_FILE

GIVEN = ("config.py", "text.py")
GRADER = Path(__file__).resolve().parents[1]
GRADING_ROOMS = ("sandbox", "suite", "grading")  # a change there may change results


class MaterialError(Exception):
    """The course's own files cannot be used: says which and why."""


class Materials(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that grades one exercise, read once per process."""

    exercise: Exercise
    prerequisites: tuple[Exercise, ...]
    suite_files: dict[Path, bytes]  # public first; the hidden one is absent in a learner's kit
    references: dict[str, bytes]  # file name -> content; the exercise and its prerequisites; empty in a kit
    given: dict[str, bytes]
    chaffs: list[Chaff]
    limits: Limits  # of one worker
    exercise_seconds: float
    max_hangs: int

    @property
    def has_hidden(self) -> bool:
        """Whether the grading suite is here (it is not in a learner's kit)."""
        return any(path.parent.name == "hidden" for path in self.suite_files)


def read_materials(course: Course, exercise: Exercise) -> Materials:
    """Read the files of one exercise; a kit without solutions and hidden tests has fewer."""
    prerequisites = course.prerequisites_of(exercise)
    needed = (*prerequisites, exercise)
    suites = [path for path in (course.public_test_path(exercise), course.hidden_test_path(exercise)) if path.is_file()]
    if not suites:
        raise MaterialError(f"{course.public_test_path(exercise)}: there is no test of exercise {exercise.label}")
    references = {f"{one.file}.py": _read(course.solution_path(one)) for one in needed if course.solution_path(one).is_file()}
    given = {name: _read(course.exercises_dir / name) for name in GIVEN if (course.exercises_dir / name).is_file()}
    if course.props_path.is_file():
        given[PROPS_FILE] = _read(course.props_path)
    chaffs = []
    folder = course.chaffs_dir(exercise)
    if len(references) == len(needed) and folder.is_dir():
        chaffs = [read_chaff(path, exercise, references, given) for path in sorted(folder.glob("*.py"))]
    limits = course.limits_for(exercise)
    return Materials(
        exercise=exercise,
        prerequisites=prerequisites,
        suite_files={path: _read(path) for path in suites},
        references=references if len(references) == len(needed) else {},
        given=given,
        chaffs=chaffs,
        limits=Limits(
            call_seconds=limits.call_seconds,
            memory_mb=limits.memory_mb,
            cpu_seconds=limits.cpu_seconds,
            output_kb=limits.output_kb,
            files=limits.files,
        ),
        exercise_seconds=limits.exercise_seconds,
        max_hangs=limits.max_hangs,
    )


def read_chaff(path: Path, exercise: Exercise, references: Mapping[str, bytes], given: Mapping[str, bytes]) -> Chaff:
    """A wrong solution with its docstring as hint and its `CATEGORY`."""
    source = _read(path)
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise MaterialError(f"{path}, line {error.lineno or 1}: {error.msg}") from None
    except ValueError as error:  # a null byte, in some versions of Python
        raise MaterialError(f"{path}, line 1: {error}") from None
    hint = " ".join((ast.get_docstring(tree) or "").split())
    category = next(
        (
            node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "CATEGORY"
            and isinstance(node.value, ast.Constant)
        ),
        None,
    )
    if not hint or not category:
        raise MaterialError(f"{path}: a chaff needs a docstring, which is its hint, and a CATEGORY")
    chaff = package(exercise, {**references, f"{exercise.file}.py": source, **given}, f"_chaff_{exercise.file}_{path.stem}")
    words = {call.rpartition(".")[2].encode() for calls in chaff.forbidden.values() for call in calls}
    if not any(word in source for word in words):  # it hides nothing from us, and to be watched takes time
        chaff = msgspec.structs.replace(chaff, forbidden={})
    return Chaff(path.stem, hint, category, chaff)


def package(exercise: Exercise, files: dict[str, bytes], name: str = "exercises") -> Package:
    """The files of one exercise as the sandbox loads them, with its by-hand rules."""
    forbidden = {graded: with_twins(calls) for graded in exercise.names if (calls := exercise.forbidden_calls(graded))}
    return Package(main=exercise.file, files=files, name=name, forbidden=forbidden)


def _reference(exercise: Exercise, files: dict[str, bytes]) -> Package:
    """The reference, which nobody has to watch."""
    return msgspec.structs.replace(package(exercise, files, f"_reference_{exercise.file}"), forbidden={})


def timed_tests(materials: Materials, device: str, off: Mapping[str, str]) -> dict[str, Timed]:
    """The exercise's timed tests with their anchors for a device; `off` holds those that cannot be told here, and why."""
    exercise, chaffs = materials.exercise, {chaff.name: chaff for chaff in materials.chaffs}
    tests = {}
    for one in exercise.timed if materials.chaffs else ():
        on = one.on(device) or one.cpu or one.cuda
        chaff = chaffs.get(on.slow)
        if chaff is None or chaff.category != "speed":
            raise MaterialError(f'{exercise.file}: {one.test} needs a chaff {on.slow} with CATEGORY = "speed" as its slow anchor')
        reason = off.get(one.test) if one.on(device) else f"needs a {'GPU' if device == 'cpu' else 'CPU'}"
        tests[one.test] = Timed(
            names=one.names,
            slow=on.slow,
            hint=chaff.hint,
            package=package(exercise, chaff.package.files, chaff.package.name),  # watched as closely as the learner's
            points=one.points,
            size=on.size,
            gap=on.gap,
            off=reason,
        )
    return tests


def make_suite(course: Course, materials: Materials, files: dict[str, bytes], seed: int, only: str | None = None) -> Suite:
    """The suite of one run on a learner's `files` (the exercise and its prerequisites, without the given ones)."""
    exercise = materials.exercise
    reference = {**materials.references, **materials.given}
    return Suite(
        learner=package(exercise, {**files, **materials.given}),
        names=list(exercise.names),
        files=list(materials.suite_files),
        public=course.public_test_path(exercise).parent,
        reference=_reference(exercise, reference) if materials.references else None,
        chaffs=materials.chaffs,
        rules=[ByHandRule(list(rule.calls), list(rule.names)) for rule in exercise.by_hand],
        training=None if exercise.training is None else (exercise.training.steps, exercise.training.loss),
        limits=materials.limits,
        exercise_seconds=materials.exercise_seconds,
        max_hangs=materials.max_hangs,
        seed=seed,
        only=only,
    )


@functools.cache
def grader_hash() -> str:
    """Hash of the grader's own code, as far as it decides about results."""
    digest = hashlib.sha256()
    for room in GRADING_ROOMS:
        for path in sorted((GRADER / room).glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def result_key(
    materials: Materials, files: Mapping[str, bytes | str], hardware: str, off: Mapping[str, str] | None = None
) -> str:
    """Hash of all that a result depends on: submission, suite, grader, kind of hardware, and what is not timed on this machine.
    Seeds are not part of it.

    A file's content is bytes; a str says why there is none. Titles, lessons and the feedback policy change no result.
    """
    exercise = materials.exercise
    parts: list[tuple[str, str, bytes]] = [("grader", "", grader_hash().encode()), ("hardware", "", hardware.encode())]
    rules = (exercise.file, exercise.points, exercise.names, exercise.by_hand, exercise.training, exercise.timed)
    limits = (materials.limits, materials.exercise_seconds, materials.max_hangs)
    parts += [("rules", "", msgspec.json.encode(rules)), ("limits", "", msgspec.json.encode(limits))]
    parts += [("off", name, b"") for name in sorted(off or ())]
    parts += [("suite", f"{path.parent.name}/{path.name}", content) for path, content in materials.suite_files.items()]
    parts += [("reference", name, content) for name, content in sorted(materials.references.items())]
    parts += [("given", name, content) for name, content in sorted(materials.given.items())]
    parts += [("chaff", chaff.name, chaff.package.files[f"{exercise.file}.py"]) for chaff in materials.chaffs]
    for name, content in sorted(files.items()):
        parts.append(("file", name, content) if isinstance(content, bytes) else ("no file", name, content.encode()))
    digest = hashlib.sha256()
    for kind, name, content in parts:
        label = f"{kind} {name}".encode("utf-8", "surrogatepass")
        digest.update(b"%d %d " % (len(label), len(content)) + label + content)
    return digest.hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MaterialError(f"{path}: cannot be read: {error.strerror}") from None
