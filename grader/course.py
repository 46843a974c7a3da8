"""Owns course.toml, the one list of exercises: reads it and checks every field. Runs no learner code.

Every mistake in the file is reported with its field's full name, what was found and what is allowed: all of them
at once.
"""

from __future__ import annotations

import datetime
import difflib
import keyword
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

SCHEMA = 1
COURSE_FILE = "course.toml"

Feedback = Literal["explain", "sentence", "verdict"]

FILE_PATTERN = r"\Aex[0-9]{2}_[a-z][a-z0-9_]{0,39}\Z"  # no dot and no slash: never leaves its folder


class CourseError(Exception):
    """A course.toml that cannot be used, or an exercise that it does not have; `problems`: a sentence per mistake."""

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems or (message,)


# The descriptions below are read by instructors: they follow the word "allowed:".
Seconds = Annotated[float, Meta(ge=0.1, le=3600, description="seconds, from 0.1 to 3600")]
CpuSeconds = Annotated[int, Meta(ge=1, le=3600, description="whole seconds, from 1 to 3600")]
Megabytes = Annotated[int, Meta(ge=64, le=262144, description="whole megabytes, from 64 to 262144")]
Kilobytes = Annotated[int, Meta(ge=1, le=65536, description="whole kilobytes, from 1 to 65536")]
Switch = Annotated[bool, Meta(description="true or false")]
Count = Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")]
Steps = Annotated[int, Meta(ge=1, le=10000, description="a whole number from 1 to 10000")]
Loss = Annotated[float, Meta(gt=0, le=100, description="a number above 0, up to 100")]
Number = Annotated[int, Meta(ge=1, le=99, description="a whole number from 1 to 99")]
Points = Annotated[float, Meta(gt=0, le=1000, description="a number above 0, up to 1000")]
FileName = Annotated[
    str, Meta(pattern=FILE_PATTERN, description='"exNN_name": two digits, then small letters, digits and underscores')
]
Text = Annotated[str, Meta(pattern=r"\A\S(.{0,98}\S)?\Z", description="one line of 1 to 100 characters, no blanks around it")]
Sentence = Annotated[
    str, Meta(pattern=r"\A\S(.{0,298}\S)?\Z", description="one line of 1 to 300 characters, no blanks around it")
]
Names = Annotated[tuple[str, ...], Meta(description="a list of Python names, each once")]
Calls = Annotated[tuple[str, ...], Meta(description='a list of dotted names such as "torch.nn.GELU", each once')]
Prerequisites = Annotated[tuple[int, ...], Meta(description="a list of smaller exercise numbers, each once")]
DEVICES = ("cpu", "cuda")
DueDate = Annotated[
    datetime.datetime, Meta(tz=True, description="a date and time with its offset, such as 2026-12-01T23:59:00+01:00")
]
TestName = Annotated[str, Meta(pattern=r"\Atest_[a-z0-9_]{1,80}\Z", description='the name of a test function, "test_..."')]
ChaffName = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]{0,79}\Z", description="a chaff's file name, without .py")]
Size = Annotated[int, Meta(ge=1, le=10**9, description="a whole number from 1 to 1000000000")]
Gap = Annotated[float, Meta(ge=1.5, le=1000, description="a number from 1.5 to 1000")]
FeedbackPolicy = Annotated[Feedback, Meta(description='"explain", "sentence" or "verdict"')]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a learner's code may use while it is graded."""

    call_seconds: Seconds = 10.0  # one call into the learner's code
    exercise_seconds: Seconds = 120.0  # the whole suite of one exercise
    memory_mb: Megabytes = 2048  # beyond what the warmed worker already holds
    cpu_seconds: CpuSeconds = 60  # CPU time of one worker
    output_kb: Kilobytes = 64  # what the learner's code may print
    max_hangs: Count = 3  # after so many hangs the rest of the exercise is stopped
    files: Switch = False  # whether there is a small folder to write to


class LimitOverrides(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that one exercise sets for itself; None keeps the course's."""

    call_seconds: float | None = None
    exercise_seconds: float | None = None
    memory_mb: int | None = None
    cpu_seconds: int | None = None
    output_kb: int | None = None
    max_hangs: int | None = None
    files: bool | None = None


class ByHandRule(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that graded names have to do without; no `names` means all graded names of the exercise."""

    calls: Calls
    names: Names = ()


class TimedOn(msgspec.Struct, frozen=True, kw_only=True):
    """What a timed test is measured against on one kind of device."""

    slow: ChaffName  # the slow anchor
    size: Size  # of the work, in the test's own unit
    gap: Gap = 1.5  # times the reference's time that the slow anchor must take at least, or nothing is said


class TimedTest(msgspec.Struct, frozen=True, kw_only=True):
    """A test of the hidden suite that needs a clock, and what it is measured against; a device that is left out is not judged."""

    test: TestName
    title: Text
    names: Names
    points: Points
    cpu: TimedOn | None = None
    cuda: TimedOn | None = None

    def on(self, device: str) -> TimedOn | None:
        """The anchors for "cpu" or "cuda"."""
        return {"cpu": self.cpu, "cuda": self.cuda}[device]


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """What a small model has to reach when it is trained on real text."""

    steps: Steps  # at most
    loss: Loss  # to fall under, in nats per token


class Exercise(msgspec.Struct, frozen=True, kw_only=True):
    """One rung of the ladder."""

    number: Number
    file: FileName  # the module's name, without .py
    title: Text
    points: Points
    names: Names  # the graded names
    prerequisites: Prerequisites = ()
    feedback: FeedbackPolicy = "explain"
    due: DueDate | None = None  # for classrooms; a learner's own checks know no date
    by_hand: tuple[ByHandRule, ...] = ()
    timed: tuple[TimedTest, ...] = ()
    training: Training | None = None
    limits: LimitOverrides = LimitOverrides()

    @property
    def label(self) -> str:
        """`"06"`, as it stands in commands and file names."""
        return f"{self.number:02d}"

    def forbidden_calls(self, name: str) -> tuple[str, ...]:
        """The calls that the graded `name` has to do without, in the file's order."""
        calls = [call for rule in self.by_hand if not rule.names or name in rule.names for call in rule.calls]
        return tuple(dict.fromkeys(calls))


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """The course: its exercises in ascending order, its limits and where its files lie."""

    root: Path
    name: str
    schema: int
    limits: Limits
    exercises: tuple[Exercise, ...]
    hand_in: str | None = None  # where learners hand in, as a sentence

    def exercise(self, spec: str | int) -> Exercise:
        """The exercise meant by 6, "6", "06", "ex06", "ex06_repeat_kv" or "ex06_repeat_kv.py"."""
        text = str(spec).strip() if isinstance(spec, str | int) and not isinstance(spec, bool) else ""
        short = re.fullmatch(r"(?:ex)?([0-9]{1,2})", text, re.IGNORECASE)
        for exercise in self.exercises:
            if text.removesuffix(".py").lower() == exercise.file or (short and int(short[1]) == exercise.number):
                return exercise
        known = ", ".join(f"{exercise.label} ({exercise.file})" for exercise in self.exercises)
        raise CourseError(f"there is no exercise {_show(spec)} in {self.root / COURSE_FILE}; it has {known}")

    def prerequisites_of(self, exercise: Exercise) -> tuple[Exercise, ...]:
        """Every exercise that `exercise` builds on, directly or not, in ascending order."""
        by_number = {one.number: one for one in self.exercises}
        needed: set[int] = set()
        waiting = list(exercise.prerequisites)
        while waiting:
            number = waiting.pop()
            if number not in needed:
                needed.add(number)
                waiting.extend(by_number[number].prerequisites)
        return tuple(by_number[number] for number in sorted(needed))

    def limits_for(self, exercise: Exercise) -> Limits:
        """The course's limits with the exercise's own in their place."""
        return _merge(self.limits, exercise.limits)

    # Where the files lie. Only `exercises`, the public tests and the lessons are in a learner's kit.

    @property
    def exercises_dir(self) -> Path:
        return self.root / "exercises"

    @property
    def solutions_dir(self) -> Path:
        return self.root / "solutions"

    def exercise_path(self, exercise: Exercise) -> Path:
        return self.exercises_dir / f"{exercise.file}.py"

    def lesson_path(self, exercise: Exercise) -> Path:
        return self.exercises_dir / f"{exercise.file}.md"

    def solution_path(self, exercise: Exercise) -> Path:
        return self.solutions_dir / f"{exercise.file}.py"

    def wheats_dir(self, exercise: Exercise) -> Path:
        return self.solutions_dir / "wheats" / exercise.file

    def chaffs_dir(self, exercise: Exercise) -> Path:
        return self.solutions_dir / "chaffs" / exercise.file

    def public_test_path(self, exercise: Exercise) -> Path:
        return self.root / "tests" / "public" / f"test_{exercise.file}.py"

    def hidden_test_path(self, exercise: Exercise) -> Path:
        return self.root / "tests" / "hidden" / f"test_{exercise.file}.py"

    def look_path(self, exercise: Exercise) -> Path:
        return self.root / "tests" / "looks" / f"{exercise.file}.py"

    @property
    def props_path(self) -> Path:
        """What suites hand to the code that they test; it runs beside that code."""
        return self.root / "tests" / "props.py"


def load_course(root: Path) -> Course:
    """The course whose course.toml lies in `root`; a `CourseError` lists every mistake in it."""
    root = Path(root).absolute()
    path = root / COURSE_FILE
    document = _read_toml(path)
    checker = _Checker()
    course = checker.course(document, root)
    if course is None or checker.problems:
        count = len(checker.problems)
        heading = f"{path} has {'a mistake' if count == 1 else f'{count} mistakes'}:"
        raise CourseError("\n  ".join([heading, *checker.problems]), tuple(f"{path}: {one}" for one in checker.problems))
    return course


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CourseError(f"{path}: no such file; run this in the course's own folder") from None
    except OSError as error:
        raise CourseError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CourseError(f"{path}, line {line}: not UTF-8 text (byte 0x{content[error.start]:02x})") from None
    try:
        return msgspec.toml.decode(content)
    except RecursionError:
        raise CourseError(f"{path}: not valid TOML: brackets nested too deeply") from None
    except (msgspec.MsgspecError, ValueError) as error:  # ValueError: a number with thousands of digits
        message = str(error)
        place = re.search(r" \(at line (\d+), column (\d+)\)", message)
        if place:
            raise CourseError(
                f"{path}, line {place[1]}, column {place[2]}: not valid TOML: {message.replace(place[0], '')}"
            ) from None
        if "(at end of document)" in message:
            line = content.rstrip().count(b"\n") + 1
            message = message.replace("at end of document", "the file ends here")
            raise CourseError(f"{path}, line {line}: not valid TOML: {message}") from None
        raise CourseError(f"{path}: not valid TOML: {message}") from None


class _Checker:
    """Walks the document and notes every mistake instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.numbers: set[int] = set()  # of all exercises

    def course(self, document: dict[str, Any], root: Path) -> Course | None:
        self._unknown(document, ("course", "limits", "exercise"), "")
        name, hand_in = self._header(document)
        limits = self._limits(document.get("limits", {}), "limits", "") or {}
        exercises = self._exercises(document.get("exercise"))
        if self.problems:
            return None
        course = Course(root=root, name=name, schema=SCHEMA, limits=Limits(**limits), exercises=exercises, hand_in=hand_in)
        self._times(course.limits, "limits")
        for index, exercise in enumerate(exercises):
            if exercise.limits != LimitOverrides():
                self._times(course.limits_for(exercise), f"exercise[{index}].limits ({exercise.file})")
        return msgspec.structs.replace(course, exercises=tuple(sorted(exercises, key=lambda one: one.number)))

    def _header(self, document: dict[str, Any]) -> tuple[str, str | None]:
        table = self._table(document.get("course"), "course", "a table [course] with name and schema")
        if table is None:
            return "", None
        self._unknown(table, ("name", "schema", "hand_in"), "course.")
        self._value(table, "schema", Literal[SCHEMA], f"{SCHEMA}, the schema that this grader reads", "course.", "")
        hand_in = self._value(table, "hand_in", Sentence, None, "course.", "") if "hand_in" in table else None
        return self._value(table, "name", Text, None, "course.", "") or "", hand_in

    def _limits(self, found: Any, where: str, file: str) -> dict[str, Any] | None:
        table = self._table(found, where + file, "a table of limits")
        return None if table is None else self._fields(Limits, table, f"{where}.", file)

    def _times(self, limits: Limits, where: str) -> None:
        if limits.call_seconds > limits.exercise_seconds:
            found = f"call_seconds {limits.call_seconds:g} and exercise_seconds {limits.exercise_seconds:g}"
            self._wrong(where, found, "one call at most as long as its exercise")

    def _exercises(self, found: Any) -> tuple[Exercise, ...]:
        if not isinstance(found, list) or not found:
            self._wrong("exercise", "nothing" if found is None else _show(found), "one table [[exercise]] per exercise")
            return ()
        self.numbers = {value for _, value in _column(found, "number") if isinstance(value, int)}
        exercises = [self._exercise(table, index) for index, table in enumerate(found)]
        self._unique("number", found)
        self._unique("file", found)
        return tuple(one for one in exercises if one is not None)

    def _exercise(self, found: Any, index: int) -> Exercise | None:
        where = f"exercise[{index}]"
        table = self._table(found, where, "a table [[exercise]]")
        if table is None:
            return None
        name = table.get("file")
        file = f" ({name})" if isinstance(name, str) and re.match(FILE_PATTERN, name) else ""
        before = len(self.problems)
        values = self._fields(Exercise, table, f"{where}.", file, nested=("by_hand", "timed", "training", "limits", "due"))
        names = values.get("names", ())
        if "file" in values and "number" in values and values["file"][2:4] != f"{values['number']:02d}":
            allowed = f'"ex{values["number"]:02d}_...", because number is {values["number"]}'
            self._wrong(f"{where}.file{file}", _show(values["file"]), allowed)
        if "names" in values:
            self._words(names, f"{where}.names{file}", _is_name, "at least one Python name, each once")
        if "prerequisites" in values and "number" in values:
            self._prerequisites(values["prerequisites"], values["number"], f"{where}.prerequisites{file}")
        if "by_hand" in table:
            values["by_hand"] = self._by_hand(table["by_hand"], f"{where}.by_hand", file, names)
        if "timed" in table:
            values["timed"] = self._timed(table["timed"], f"{where}.timed", file, names)
        if "training" in table:
            values["training"] = self._training(table["training"], f"{where}.training", file)
        if "due" in table:
            values["due"] = self._value(table, "due", DueDate, None, f"{where}.", file)
        if "limits" in table:
            values["limits"] = LimitOverrides(**(self._limits(table["limits"], f"{where}.limits", file) or {}))
        return Exercise(**values) if len(self.problems) == before else None

    def _by_hand(self, found: Any, where: str, file: str, graded: tuple[str, ...]) -> tuple[ByHandRule, ...]:
        if not isinstance(found, list):
            self._wrong(where + file, _show(found), "a list of tables [[exercise.by_hand]]")
            return ()
        rules = []
        for index, one in enumerate(found):
            place = f"{where}[{index}]"
            table = self._table(one, place + file, "a table [[exercise.by_hand]]")
            if table is None:
                continue
            values = self._fields(ByHandRule, table, f"{place}.", file)
            if "calls" in values:
                allowed = 'at least one dotted name such as "torch.nn.GELU", each once'
                self._words(values["calls"], f"{place}.calls{file}", _is_dotted_name, allowed)
            if "names" in values and graded:
                allowed = f"a part of the exercise's names: {', '.join(graded)}, each once"
                self._words(values["names"], f"{place}.names{file}", graded.__contains__, allowed)
            if "calls" in values:
                rules.append(ByHandRule(**values))
        return tuple(rules)

    def _training(self, found: Any, where: str, file: str) -> Training | None:
        table = self._table(found, where + file, "a table such as { steps = 100, loss = 3.0 }")
        values = {} if table is None else self._fields(Training, table, f"{where}.", file)
        return Training(**values) if len(values) == 2 else None

    def _timed(self, found: Any, where: str, file: str, graded: tuple[str, ...]) -> tuple[TimedTest, ...]:
        if not isinstance(found, list):
            self._wrong(where + file, _show(found), "a list of tables [[exercise.timed]]")
            return ()
        tests: list[TimedTest] = []
        for index, one in enumerate(found):
            place = f"{where}[{index}]"
            table = self._table(one, place + file, "a table [[exercise.timed]]")
            before = len(self.problems)
            values = {} if table is None else self._fields(TimedTest, table, f"{place}.", file, nested=DEVICES)
            if "names" in values and graded:
                allowed = f"a part of the exercise's names: {', '.join(graded)}, each once"
                self._words(values["names"], f"{place}.names{file}", graded.__contains__, allowed)
            for device in DEVICES if table is not None else ():
                if device in table:
                    values[device] = self._timed_on(table[device], f"{place}.{device}", file)
            if table is not None and not any(device in table for device in DEVICES):
                self._wrong(place + file, "neither cpu nor cuda", "at least one of them: cpu = { slow = ..., size = ... }")
            if any(other.test == values.get("test") for other in tests):
                self._wrong(f"{place}.test{file}", _show(values["test"]), "each test once")
            if len(self.problems) == before:
                tests.append(TimedTest(**values))
        return tuple(tests)

    def _timed_on(self, found: Any, where: str, file: str) -> TimedOn | None:
        table = self._table(found, where + file, 'a table such as { slow = "a_chaff", size = 100, gap = 3.0 }')
        before = len(self.problems)
        values = {} if table is None else self._fields(TimedOn, table, f"{where}.", file)
        return TimedOn(**values) if len(self.problems) == before else None

    # The small checks that the ones above are made of.

    def _fields(
        self, kind: type[msgspec.Struct], table: dict[str, Any], prefix: str, file: str, nested: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """The right values of a table, as `kind` declares them; `nested` fields are left to the caller."""
        declared = {field.name: field for field in msgspec.structs.fields(kind)}
        self._unknown(table, tuple(declared), prefix, file)
        values: dict[str, Any] = {}
        for name, field in declared.items():
            if name in nested or (name not in table and not field.required):
                continue
            value = self._value(table, name, field.type, None, prefix, file)
            if value is not None:
                values[name] = value
        return values

    def _value(self, table: dict[str, Any], name: str, kind: Any, allowed: str | None, prefix: str, file: str) -> Any | None:
        """One value, converted strictly; None, and a note, if it is missing or wrong."""
        allowed = allowed or next(extra.description for extra in get_args(kind)[1:] if isinstance(extra, Meta))
        if name not in table:
            self._wrong(f"{prefix}{name}{file}", "nothing", f"{allowed} (the field is required)")
            return None
        try:
            value = msgspec.convert(table[name], kind, strict=True)
        except msgspec.ValidationError:
            value = None
        if value is None or (isinstance(value, str) and not value.isprintable()):
            self._wrong(f"{prefix}{name}{file}", _show(table[name]), allowed)
            return None
        return value

    def _table(self, found: Any, where: str, allowed: str) -> dict[str, Any] | None:
        if isinstance(found, dict):
            return found
        self._wrong(where, "nothing" if found is None else _show(found), allowed)
        return None

    def _unknown(self, table: dict[str, Any], known: tuple[str, ...], prefix: str, file: str = "") -> None:
        for name in table:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                meant = f"; did you mean {near[0]}?" if near else ""
                self._wrong(f"{prefix}{_key(name)}{file}", "an unknown field", ", ".join(known) + meant)

    def _words(self, words: tuple[str, ...], where: str, is_right: Callable[[str], bool], allowed: str) -> None:
        """Words of a list: at least one, each right, each once."""
        wrong = [word for word in dict.fromkeys(words) if not is_right(word) or words.count(word) > 1]
        if wrong or not words:
            self._wrong(where, ", ".join(map(_show, wrong)) or "an empty list", allowed)

    def _unique(self, name: str, tables: list[Any]) -> None:
        first: dict[Any, int] = {}
        for index, value in _column(tables, name):
            if value in first:
                found = f"{_show(value)}, as in exercise[{first[value]}]"
                self._wrong(f"exercise[{index}].{name}", found, f"each {name} once")
            else:
                first[value] = index

    def _prerequisites(self, wanted: tuple[int, ...], number: int, where: str) -> None:
        smaller = sorted(one for one in self.numbers if one < number)
        wrong = [one for one in dict.fromkeys(wanted) if wanted.count(one) > 1 or one not in smaller]
        if wrong:
            allowed = ", ".join(map(str, smaller)) + ", each once" if smaller else "none, there is no smaller number"
            self._wrong(where, ", ".join(map(_show, wrong)), f"numbers of exercises before {number}: {allowed}")

    def _wrong(self, where: str, found: str, allowed: str) -> None:
        self.problems.append(f"{where}: found {found}; allowed: {allowed}")


def _column(tables: list[Any], name: str) -> Iterator[tuple[int, Any]]:
    for index, table in enumerate(tables):
        if isinstance(table, dict) and type(table.get(name)) in (int, str):
            yield index, table[name]


def _merge(limits: Limits, own: LimitOverrides) -> Limits:
    return msgspec.structs.replace(limits, **{k: v for k, v in msgspec.structs.asdict(own).items() if v is not None})


def _is_name(word: str) -> bool:
    return word.isascii() and word.isidentifier() and not keyword.iskeyword(word)


def _is_dotted_name(word: str) -> bool:
    return all(_is_name(part) for part in word.split("."))


def _key(name: str) -> str:
    """A key as TOML would write it."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name) else _show(name)


def _show(value: Any) -> str:
    """A value as an instructor would recognise it, on one line and never long."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 200:
        return "a number of more than 60 digits"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return "a list of tables or lists"
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    text = repr(value)
    if isinstance(value, str):
        text = '"' + text[1:-1] + '"'
    return text if len(text) <= 80 else text[:77] + "..."
