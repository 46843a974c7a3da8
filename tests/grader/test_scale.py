"""A class on Dask workers: the same as on one machine, though workers, schedulers and the command itself are killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from grader.course import load_course
from grader.grading import cluster as cluster_module
from grader.grading.batch import Done, grade_class
from grader.grading.cluster import Cluster
from grader.grading.protocol import BatchError, Job
from grader.grading.result import read_result
from grader.grading.version import version_of
from grader.submission import Submission, find_submissions
from tests.grader.small_course import BASE, DOUBLE, QUADRUPLE, ROOT, TOP, write_course, write_submission

EXERCISES = [BASE, TOP]
PATIENCE = 60.0
pytestmark = pytest.mark.timeout(300)


class Dask:
    """A scheduler and workers, as processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "scheduler.json"
        self.scheduler: subprocess.Popen | None = None
        self.workers: list[subprocess.Popen] = []
        self.playing, self.course = True, folder / "course"

    def _start(self, command: str, *options: str) -> subprocess.Popen:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PLAYING_COURSE": str(self.course)}
        environment["PLAYING_RUNNERS"] = "1" if self.playing else ""
        environment["DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT"] = "1s"
        log = (self.folder / f"{command}.log").open("a")
        arguments = [sys.executable, "-m", f"distributed.cli.dask_{command}", "--no-dashboard", *options]
        return subprocess.Popen(arguments, cwd=self.folder, env=environment, stdout=log, stderr=log)

    def start_scheduler(self) -> None:
        port = self.address.rpartition(":")[2] if self.file.exists() else "0"
        self.file.unlink(missing_ok=True)
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", port, "--scheduler-file", str(self.file))
        until(lambda: self.file.exists() and self.file.stat().st_size > 0)

    def add_worker(self, *options: str) -> None:
        options = ("--nthreads", "1", "--local-directory", str(self.folder / "scratch"), *options)
        more = ("--preload", "tests.grader.playing_workers", "--no-nanny")
        self.workers.append(self._start("worker", self.address, *options, *more))

    @property
    def address(self) -> str:
        return json.loads(self.file.read_text())["address"]

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            if process is not None:
                process.kill()
                process.wait()


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


@pytest.fixture
def dask(tmp_path) -> Iterator[Dask]:
    write_course(tmp_path / "course")
    (tmp_path / "results").mkdir()
    (tmp_path / "results/log").write_text("")
    dask = Dask(tmp_path)
    dask.start_scheduler()
    yield dask
    dask.end()


@pytest.fixture
def job(tmp_path) -> Job:
    return Job(root=tmp_path / "course", out=tmp_path / "results", exercises=EXERCISES, seed=5)


def submissions_of(*students: str) -> list[Submission]:
    return [Submission(student=name, key=name, path=Path("/nowhere"), kind="folder") for name in students]


def grade(job: Job, dask: Dask, submissions: list[Submission], said: list[str] | None = None, **more) -> list[Done]:
    """On the cluster, by its scheduler file."""
    say = (said if said is not None else []).append
    done = grade_class(job, submissions, 1, executor=lambda job: Cluster(job, str(dask.file), say=say), **more)
    return sorted(done, key=lambda one: one.student)


def log(job: Job) -> list[str]:
    return (job.out / "log").read_text().splitlines()


def whole(job: Job, names: list[str]) -> bool:
    """Whether each student has each result, whole."""
    return all(read_result(job.out / name / f"{exercise[:4]}.json").points == 1.0 for name in names for exercise in EXERCISES)


@pytest.mark.slow
def test_every_exercise_of_every_submission_is_graded_once_and_a_poisonous_one_stalls_nobody(dask, job):
    dask.add_worker()
    dask.add_worker()
    names = [f"student{number:02d}" for number in range(12)]
    *done, poison = sorted(grade(job, dask, submissions_of(*names, "dies-1")), key=lambda one: one.student == "dies-1")
    assert done == [Done(student=name, graded=EXERCISES) for name in names] and whole(job, names)
    assert poison.errors == {BASE: "the grading process died 2 times on this submission (exit -9)"}
    assert sorted(poison.graded) == EXERCISES
    counts = Counter(log(job))
    assert counts.pop(f"dies-1 {BASE}") == 2 and set(counts.values()) == {1} and len(counts) == 25
    assert all(process.poll() is None for process in dask.workers), "a poisonous submission must not reach the Dask worker"


@pytest.mark.slow
def test_a_worker_that_is_lost_loses_no_result(dask, job):
    dask.add_worker()
    dask.add_worker()
    names = [f"slow{number:02d}" for number in range(12)]

    def kill() -> None:
        until(lambda: len(log(job)) >= 6)
        dask.workers[0].kill()
        dask.add_worker()

    killer = threading.Thread(target=kill)
    killer.start()
    assert grade(job, dask, submissions_of(*names)) == [Done(student=name, graded=EXERCISES) for name in names]
    killer.join()
    counts = Counter(log(job))
    assert whole(job, names) and len(counts) == 24 and sum(counts.values()) <= 24 + 2  # it had at most two tasks


@pytest.mark.slow
def test_a_scheduler_that_is_restarted_loses_no_result(dask, job):
    dask.add_worker()
    names = [f"slow{number:02d}" for number in range(10)]
    said: list[str] = []
    written: list[float] = []

    def restart() -> None:
        until(lambda: len(written) >= 5)
        dask.scheduler.kill()
        dask.scheduler.wait()
        time.sleep(0.5)
        dask.start_scheduler()
        dask.add_worker()

    killer = threading.Thread(target=restart)
    killer.start()
    done = grade(job, dask, submissions_of(*names), said, on_result=lambda: written.append(time.monotonic()))
    killer.join()
    assert done == [Done(student=name, graded=EXERCISES) for name in names] and whole(job, names)
    counts = Counter(log(job))
    assert len(written) == len(counts) == 20 and sum(counts.values()) <= 20 + 3  # what was in work or in hand, and no more
    assert said and all("is away" in one or "no worker yet" in one for one in said)


TIMED = 'test = "test_values"\npoints = 1\ncpu = { slow = "slow", size = 1 }\n'


@pytest.mark.slow
def test_what_is_timed_goes_to_a_worker_for_that(dask, job, tmp_path):
    course = tmp_path / "course/course.toml"
    course.write_text(course.read_text() + '\n[[exercise.timed]]\ntitle = "Fast"\nnames = ["quadruple"]\n' + TIMED)
    dask.add_worker("--resources", "timing=1")
    dask.add_worker()
    until(lambda: (tmp_path / "worker.log").read_text().count("Starting established connection") >= 2)
    names = [f"slow{number}" for number in range(6)]
    assert len(grade(job, dask, submissions_of(*names))) == 6
    who = [line.split() for line in (job.out / "who").read_text().splitlines()]
    assert len({pid for exercise, pid in who if exercise == BASE}) == 2
    assert {pid for exercise, pid in who if exercise == TOP} == {str(dask.workers[0].pid)}


@pytest.mark.slow
def test_a_worker_with_another_course_is_refused_in_words(dask, job, tmp_path):
    shutil.copytree(tmp_path / "course", tmp_path / "other")
    suite = tmp_path / f"other/tests/hidden/test_{TOP}.py"
    suite.write_text(suite.read_text() + "\n")
    dask.course = tmp_path / "other"
    dask.add_worker()
    with pytest.raises(BatchError, match=r"not all Dask workers can grade this course: tcp://\S+ has another course\. Start"):
        grade(job, dask, submissions_of("a"))
    assert log(job) == []


def test_no_scheduler_is_told(job, tmp_path, monkeypatch):
    write_course(tmp_path / "course")
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 0.5)
    with pytest.raises(BatchError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9"):
        Cluster(job, "tcp://127.0.0.1:9", say=print)


def test_what_results_depend_on_is_compared(tmp_path):
    write_course(tmp_path / "one")
    write_course(tmp_path / "two")
    one = version_of(tmp_path / "one")
    assert one == version_of(tmp_path / "two") and one.differences(one) == []
    (tmp_path / "two/exercises" / f"{BASE}.py").write_text("# a learner's: no part of the course\n")
    (tmp_path / "two/exercises/ex01_base.md").write_text("a lesson\n")
    assert one == version_of(tmp_path / "two")
    for name in ("exercises/config.py", "solutions/chaffs/ex01_base/triple.py", "tests/public/test_ex01_base.py", "course.toml"):
        before = (tmp_path / "two" / name).read_text()
        (tmp_path / "two" / name).write_text(before + "\n")
        assert one.differences(version_of(tmp_path / "two")) == ["another course"], name
        (tmp_path / "two" / name).write_text(before)
    load_course(tmp_path / "two")


@pytest.mark.slow
def test_a_class_on_a_cluster_gets_the_points_that_it_gets_here(dask, job, tmp_path):
    dask.playing = False
    dask.add_worker()
    hand_in = tmp_path / "submissions"
    write_submission(hand_in, "all", base=DOUBLE, top=QUADRUPLE)
    write_submission(hand_in, "wrong", base=DOUBLE.replace("2 * x", "3 * x"), top=QUADRUPLE)
    write_submission(hand_in, "exits", base="import os\ndef double(x):\n    os._exit(0)\n", top=QUADRUPLE)
    submissions = find_submissions(hand_in)
    found = []
    for executor in ({}, {"executor": lambda job: Cluster(job, dask.address, say=print)}):
        done = sorted(grade_class(job, submissions, 1, **executor), key=lambda one: one.student)
        assert not any(one.errors or one.kept for one in done)
        results = [read_result(path) for path in sorted(job.out.glob("*/ex*.json"))]
        assert all(result.official and result.seed == 5 for result in results)
        found.append([(result.student, result.exercise, result.points, result.prerequisites) for result in results])
        again = sorted(grade_class(job, submissions, 1, **executor), key=lambda one: one.student)
        assert [one.kept for one in again] == [EXERCISES] * 3
        shutil.rmtree(job.out)
        job.out.mkdir()
    assert found[0] == found[1] and len(found[0]) == 6
    os.kill(dask.workers[0].pid, signal.SIGTERM)
    dask.workers[0].wait(30)
    time.sleep(0.5)
    runners = subprocess.run(
        ["pgrep", "-f", f"grader.grading.runner [0-9]+ {dask.workers[0].pid}"], capture_output=True, text=True
    )
    assert runners.stdout == "", "runners outlive their worker"
