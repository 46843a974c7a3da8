"""Grades a class: hands out one exercise of one submission at a time, survives the death of whoever grades it, and can be killed and
started again.

Who grades is an executor's affair (`local`: processes here; `cluster`: Dask workers anywhere); the rules are the same. Each result
comes back and is written here, by atomic rename, before it counts as done: whatever is killed, only what was in work is lost.
Runs no learner code and imports no torch.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

import msgspec

from grader.course import Course, load_course
from grader.submission import Submission

from .local import LocalRunners
from .protocol import BatchError, Died, Finished, Job, Task, finished, lost_result
from .result import Result, ResultError, read_result, result_path, write_result

MAX_DEATHS = 2  # runners that one exercise of a submission may take with it


class Done(msgspec.Struct, kw_only=True):
    """What became of one submission."""

    student: str
    graded: list[str] = []
    kept: list[str] = []
    errors: dict[str, str] = {}
    missing: list[str] = []
    unofficial: list[str] = []

    def note(self, finished: Finished) -> None:
        """Take one exercise into account."""
        exercise = finished.exercise
        (self.kept if finished.kept else self.graded).append(exercise)
        if finished.status == "error":
            self.errors[exercise] = finished.reason or ""
        elif finished.status == "missing":
            self.missing.append(exercise)
        elif not finished.official:
            self.unofficial.append(exercise)

    def in_order(self, exercises: Sequence[str]) -> Done:
        """The same, whichever exercise happened to be graded first."""

        def sort(names: Iterable[str]) -> list[str]:
            return sorted(names, key=exercises.index)

        return Done(
            student=self.student,
            graded=sort(self.graded),
            kept=sort(self.kept),
            errors={name: self.errors[name] for name in sort(self.errors)},
            missing=sort(self.missing),
            unofficial=sort(self.unofficial),
        )


class Executor(Protocol):
    """Whoever has tasks graded."""

    def fill(self, batch: Batch) -> None:
        """Take as many tasks as can be put in hand."""

    def listen(self) -> Iterator[tuple[Task, Finished | Died]]:
        """Wait, for some seconds at most, for what became of some of them. Raises `BatchError` if nothing can be graded."""

    def end(self) -> None:
        """Stop everything that was started."""


def grade_class(
    job: Job,
    submissions: Sequence[Submission],
    jobs: int,
    *,
    executor: Callable[[Job], Executor] | None = None,
    on_result: Callable[[], None] = lambda: None,
) -> Iterator[Done]:
    """Grade every submission with `jobs` runners, or with another executor; yields each submission as it is done.

    `on_result` is called after each result. Close the iterator to stop early. Raises `BatchError` when the course or the machine is
    such that nothing can be graded.
    """
    batch = Batch(job, load_course(job.root), submissions)
    hands = LocalRunners(job, jobs) if executor is None else executor(job)
    try:
        while not batch.is_over:
            hands.fill(batch)
            for task, answer in hands.listen():
                done = batch.settle(task, answer)
                on_result()
                if done is not None:
                    yield done
    finally:
        hands.end()


class Batch:
    """What is to be done, what is in hand and what is done.

    The order is by exercise and then by submission, so that a suite's references answer once for many; an exercise's prerequisites
    come before it, so that what they are worth is known.
    """

    def __init__(self, job: Job, course: Course, submissions: Sequence[Submission]) -> None:
        self.job, self.course = job, course
        self._submissions = {submission.key: submission for submission in submissions}
        wanted = {key: job.only.get(key, job.exercises) for key in self._submissions}
        pairs = ((exercise, key) for exercise in job.exercises for key in self._submissions if exercise in wanted[key])
        self._waiting = deque(pairs)
        self._left = {key: len(exercises) for key, exercises in wanted.items()}
        self._open = sum(self._left.values())
        self._deaths: Counter[tuple[str, str]] = Counter()
        self._done: dict[str, Done] = {}

    @property
    def waiting(self) -> int:
        """How many tasks are in nobody's hand."""
        return len(self._waiting)

    @property
    def is_over(self) -> bool:
        """Whether all is done."""
        return self._open == 0

    def take(self, exercise: str = "", others: Sequence[str] | set[str] = ()) -> Task | None:
        """The next task, or None. Where exercises do not depend on each other, runners stay with one as long as there is something
        to do, then go to one that no other is at: a runner remembers what an exercise's references and chaffs answered."""
        if not self._waiting:
            return None
        if not self.job.carry_forward:
            ranks = (lambda one: one == exercise, lambda one: one not in others)
            for index in (next((i for i, (one, _) in enumerate(self._waiting) if fits(one)), None) for fits in ranks):
                if index is not None:
                    pair = self._waiting[index]
                    del self._waiting[index]
                    return self._task(*pair)
        return self._task(*self._waiting.popleft())

    def put_back(self, task: Task) -> None:
        """Let somebody else do it: whoever had it is gone, for reasons of their own."""
        self._waiting.appendleft((task.exercise, task.student))

    def settle(self, task: Task, answer: Finished | Died) -> Done | None:
        """Write a result, or see to it that another tries; what became of the submission, if this was its last exercise."""
        if isinstance(answer, Died):
            self._deaths[task.exercise, task.student] += 1
            if self._deaths[task.exercise, task.student] < MAX_DEATHS:
                self.put_back(task)
                return None
            reason = f"the grading process died {MAX_DEATHS} times on this submission ({answer.reason})"
            answer = finished(lost_result(task.student, task.exercise, reason))
        if answer.result is not None:
            try:
                write_result(self.job.out, answer.result)
            except (OSError, ResultError) as error:
                raise BatchError(f"a result cannot be written: {error}") from None
        done = self._done.setdefault(task.student, Done(student=task.student))
        done.note(answer)
        self._open -= 1
        self._left[task.student] -= 1
        return self._done.pop(task.student).in_order(self.job.exercises) if not self._left[task.student] else None

    def _task(self, exercise: str, student: str) -> Task:
        one, submission = self.course.exercise(exercise), self._submissions[student]
        names = [earlier.file for earlier in self.course.prerequisites_of(one)]
        done = self._done.get(student)
        found = {name for name in chain(done.graded, done.kept)} if done is not None else set()
        results = {name: self._on_disk(student, name) for name in names if name in found}
        return Task(
            student=student,
            exercise=exercise,
            files={name: submission.file(name) for name in (*names, exercise)},
            before=self._on_disk(student, exercise),
            known={name: result for name, result in results.items() if result is not None},
        )

    def _on_disk(self, student: str, exercise: str) -> Result | None:
        try:
            result = read_result(result_path(self.job.out, student, exercise))
        except ResultError:
            return None
        return msgspec.structs.replace(result, tests=[], output=None, environment=None)
