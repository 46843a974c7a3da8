"""Runners on other machines: an executor over Dask's `distributed`. Runs no learner code and imports no torch.

A task travels with the submission's files and comes back with its result; workers share no disk with this process, only the same
version of course and grader, which each of them has to prove. Dask decides where a task runs and moves it when a worker is lost;
how often a submission may kill its runner is the batch's rule, as on one machine.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import Client, Future

from grader.course import load_course
from grader.text import some_of

from .cluster_worker import Differs, differs, grade_task
from .protocol import BatchError, Died, Finished, Job, Refused, Task
from .version import version_of

if TYPE_CHECKING:
    from .batch import Batch

CONNECT_SECONDS = 10.0
FIRST_WORKER_SECONDS = 120.0
AWAY_SECONDS = 600.0  # for which a scheduler may be away
TICK = 1.0
LOOK_SECONDS = 5.0  # between two looks at which workers there are
GPU, TIMING = "GPU", "timing"  # names of Dask resources
WAITS = Died("not yet")


class Cluster:
    """An executor over the workers of one Dask scheduler."""

    def __init__(self, job: Job, scheduler: str, *, say: Callable[[str], None]) -> None:
        for name in ("distributed", "distributed.client", "distributed.core", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # a lost connection is told in our words
        self.job, self._say = job, say
        self._where = {"scheduler_file": scheduler} if Path(scheduler).is_file() else {"address": scheduler}
        self._name, self._batch = scheduler, uuid.uuid4().hex
        self._version = version_of(job.root)
        course = load_course(job.root)
        self._timed = {one.file for one in course.exercises if any(timed.cpu for timed in one.timed)}
        self._on_gpu = {one.file for one in course.exercises if any(timed.cuda and not timed.cpu for timed in one.timed)}
        self._events: queue.SimpleQueue[tuple[str, Future]] = queue.SimpleQueue()
        self._hand: dict[str, tuple[Task, Future]] = {}  # key -> what is there
        self._back: list[Task] = []  # of a scheduler that is gone
        self._room, self._resources, self._looked = 0, set[str](), 0.0
        self._client: Client | None = None
        try:
            self._client = self._connect()
            self._await_workers()
        except BaseException:
            self.end()
            raise

    # --- the executor ---

    def fill(self, batch: Batch) -> None:
        """Keep every worker busy, with one task more at hand for each."""
        while self._back:
            batch.put_back(self._back.pop())
        assert self._client is not None
        if self._client.status != "running":
            self._restart()
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._look()
        while len(self._hand) < self._room and (task := batch.take()) is not None:
            key = f"grade-{task.exercise}-{uuid.uuid4().hex}"
            try:
                future = self._client.submit(
                    grade_task,
                    self._batch,
                    self.job,
                    self._version,
                    task,
                    key=key,
                    pure=False,
                    retries=0,
                    resources=self._needs(task) or None,
                )
            except Exception:  # the scheduler went away this very moment
                batch.put_back(task)
                return
            self._hand[key] = task, future
            self._listen_to(future)

    def listen(self) -> Iterator[tuple[Task, Finished | Died]]:
        """Wait a moment for answers."""
        try:
            events = [self._events.get(timeout=TICK)]
        except queue.Empty:
            return
        while not self._events.empty():
            events.append(self._events.get())
        for key, future in events:
            task, mine = self._hand.get(key, (None, None))
            if task is None or mine is not future:
                continue
            if future.status == "cancelled" or (answer := self._answer(future)) is None:
                self._back.append(task)
                del self._hand[key]
            elif answer is not WAITS:
                del self._hand[key]
                yield task, answer

    def end(self) -> None:
        """Let the scheduler forget what is still there."""
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.cancel([future for _, future in self._hand.values()], force=True)
            self._close()
        self._hand.clear()

    # --- one answer ---

    def _listen_to(self, future: Future) -> None:
        future.add_done_callback(lambda done: self._events.put((done.key, future)))

    def _answer(self, future: Future) -> Finished | Died | None:
        """What came of it; None if that is lost, `WAITS` if Dask is at it again."""
        try:
            if future.status == "error":
                error: Any = future.exception(timeout=CONNECT_SECONDS)
                if type(error).__name__ == "KilledWorker":
                    return Died("the Dask workers that had it died")
                raise BatchError(f"a Dask worker cannot grade: {type(error).__name__}: {error}. {_HOW_TO_START}")
            answer = future.result(timeout=CONNECT_SECONDS)
        except BatchError:
            raise
        except TimeoutError:  # the worker that held the answer is gone: the scheduler has another do it
            self._listen_to(future)
            return WAITS
        except Exception:  # the scheduler is gone
            return None
        if isinstance(answer, Differs):
            raise BatchError(f"a Dask worker of {self._name} has {' and '.join(answer.differences)}. {_HOW_TO_START}")
        if isinstance(answer, Refused):
            raise BatchError(answer.reason)
        return answer

    def _needs(self, task: Task) -> dict[str, float]:
        """The Dask resources of a task: those that some worker declares. A GPU for what can only be told on one; a machine that
        does nothing else meanwhile for what is timed."""
        needs = {}
        if GPU in self._resources and task.exercise in self._on_gpu:
            needs[GPU] = 1.0
        elif TIMING in self._resources and task.exercise in self._timed:
            needs[TIMING] = 1.0
        return needs

    # --- the connection ---

    def _connect(self) -> Client:
        try:
            return Client(**self._where, timeout=CONNECT_SECONDS, set_as_default=False, name="attention-ladder")
        except Exception as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise BatchError(f"no Dask scheduler answers at {self._name}: {text[:200]}") from None

    def _await_workers(self) -> None:
        """Have at least one worker, and none that would grade otherwise than the others."""
        assert self._client is not None
        end, told = time.monotonic() + FIRST_WORKER_SECONDS, False
        while not self._client.nthreads():
            if time.monotonic() > end:
                raise BatchError(f"the scheduler at {self._name} has no worker. {_HOW_TO_START}")
            if not told:
                self._say(f"the scheduler at {self._name} has no worker yet; waiting for one")
                told = True
            time.sleep(TICK)
        try:
            answers = self._client.run(differs, self._version, on_error="return")
        except Exception as error:
            raise BatchError(f"the Dask workers cannot be asked: {type(error).__name__}: {error}. {_HOW_TO_START}") from None
        wrong = []
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, Differs):
                wrong.append(f"{worker} has {' and '.join(answer.differences)}")
            elif isinstance(answer, BaseException) and not isinstance(answer, OSError):
                wrong.append(f"{worker}: {type(answer).__name__}: {answer}")
        if wrong:
            raise BatchError(f"not all Dask workers can grade this course: {some_of(wrong, 3, '; ')}. {_HOW_TO_START}")
        self._look()

    def _look(self) -> None:
        """Which workers there are now."""
        assert self._client is not None
        with contextlib.suppress(Exception):  # it is away: listened to elsewhere
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
            self._room = sum(worker["nthreads"] + 1 for worker in workers)
            self._resources = {name for worker in workers for name in worker["resources"]}
        self._looked = time.monotonic()

    def _restart(self) -> None:
        """The scheduler, or the way to it, is gone, and all that it knew: find it again; what was in hand is done again."""
        self._back += [task for task, _ in self._hand.values()]
        self._hand.clear()
        while not self._events.empty():
            self._events.get()
        self._close()
        self._say(f"the Dask scheduler at {self._name} is away; waiting for it ({len(self._back)} exercises are done again)")
        end = time.monotonic() + AWAY_SECONDS
        while True:
            try:
                self._client = self._connect()
                self._await_workers()
                return
            except BatchError:
                self._close()
                if time.monotonic() > end:
                    raise
                time.sleep(TICK)

    def _close(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=2)
            self._client = None


_HOW_TO_START = (
    "Start workers in the course's folder, with its Python: PYTHONPATH=. .venv/bin/dask worker ADDRESS (docs/scale.md)"
)
