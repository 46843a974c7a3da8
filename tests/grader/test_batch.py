"""A class through `grade_class`: what is resumed, what is graded again, and what becomes of runners that die or never start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from grader.course import CourseError, load_course
from grader.grading import local
from grader.grading.batch import Batch, Done, grade_class
from grader.grading.grade import Grader
from grader.grading.local import Runner
from grader.grading.materials import MaterialError
from grader.grading.protocol import BatchError, Died, Finished, Job, Task, finished, lost_result
from grader.grading.result import Result, read_result, result_path, write_result
from grader.grading.runner import grading
from grader.submission import Submission, find_submissions
from tests.grader.processes import descendants, runs
from tests.grader.small_course import BASE, DOUBLE, QUADRUPLE, ROOT, TOP, write_course, write_submission

EXERCISES = [BASE, TOP]


def job_in(folder: Path, **more) -> Job:
    return Job(root=folder / "course", out=folder / "results", exercises=EXERCISES, **more)


def submissions_of(*students: str) -> list[Submission]:
    return [Submission(student=name, key=name, path=Path("/nowhere"), kind="folder") for name in students]


# --- with runners that only play ---


@pytest.fixture
def play(tmp_path, monkeypatch) -> Callable[..., list[Done]]:
    """Grades submissions of these names with runners that play; the log is `play.log()`."""
    write_course(tmp_path / "course")
    (tmp_path / "results").mkdir()
    log = tmp_path / "results/log"
    log.write_text("")

    def play(*students: str, jobs: int = 1, serve: str = "playing", **more) -> list[Done]:
        monkeypatch.setattr(Runner, "command", ("-m", "tests.grader.playing_runners", serve))
        return sorted(grade_class(job_in(tmp_path, **more), submissions_of(*students), jobs), key=lambda done: done.student)

    play.log = lambda: log.read_text().splitlines()
    return play


def test_every_submission_is_done_once(play):
    names = [f"student{number}" for number in range(7)]
    for jobs in (1, 3):
        assert play(*names, jobs=jobs) == [Done(student=name, graded=EXERCISES) for name in names]
    assert sorted(play.log()) == sorted([f"{name} {exercise}" for name in names for exercise in EXERCISES] * 2)


def test_only_the_wanted_exercises_of_a_student_are_done(play):
    assert play("a", "b", only={"b": [TOP]}) == [Done(student="a", graded=EXERCISES), Done(student="b", graded=[TOP])]


@pytest.mark.parametrize("number", [1, 2])
def test_what_killed_a_runner_once_is_tried_again_and_nothing_else(play, number):
    name = f"dies-once-{number}"
    assert play(name, "other") == [Done(student=name, graded=EXERCISES), Done(student="other", graded=EXERCISES)]
    log = [line.split()[1] for line in play.log() if line.startswith(name)]
    assert log == ([BASE, BASE, TOP] if number == 1 else [BASE, TOP, TOP])


@pytest.mark.parametrize("number", [1, 2])
def test_what_kills_every_runner_is_an_error_and_the_rest_is_graded(play, tmp_path, number):
    name, deadly = f"dies-{number}", EXERCISES[number - 1]
    for exercise in EXERCISES:  # of an earlier submission: must not be taken for this one's
        write_result(
            tmp_path / "results",
            Result(student=name, exercise=exercise, status="graded", points=9.0, max_points=9.0, official=True, key="old"),
        )
    done, other = play(name, "other", jobs=2)
    assert other == Done(student="other", graded=EXERCISES)
    assert done.graded == EXERCISES and done.errors.keys() == {deadly} and done.kept == []
    assert done.errors[deadly] == "the grading process died 2 times on this submission (exit -9)"
    results = {exercise: read_result(result_path(tmp_path / "results", name, exercise)) for exercise in EXERCISES}
    assert {exercise: (result.status, result.points) for exercise, result in results.items()} == {
        exercise: ("error", None) if exercise == deadly else ("graded", 1.0) for exercise in EXERCISES
    }
    assert results[deadly].reason == done.errors[deadly] and results[deadly].key == ""


def test_a_course_that_cannot_be_graded_stops_the_batch_with_its_reason(play):
    with pytest.raises(BatchError, match="the course has no suite"):
        play("a", "b", jobs=2, serve="refusing")


def test_runners_that_never_start_stop_the_batch(play):
    with pytest.raises(BatchError, match=r"ends before it can grade anything \(exit 3\)"):
        play(*"abcdef", jobs=2, serve="ending")


def test_a_runner_that_leaves_between_two_submissions_is_replaced_and_nobody_blamed(play):
    done = play("a", "b", "c", serve="answering_then_ending")
    assert done == [Done(student=name, graded=EXERCISES) for name in "abc"]
    assert len(play.log()) == 6


def test_a_runner_that_never_answers_is_taken_for_dead(play, monkeypatch):
    monkeypatch.setattr(local, "TASK_SECONDS", 1.0)
    monkeypatch.setattr(local, "TICK", 0.1)
    first, second = play("a", "sleeps", jobs=2, only={"sleeps": [BASE]})
    assert first == Done(student="a", graded=EXERCISES)
    assert second.errors[BASE].startswith("the grading process died 2 times on this submission (the grading process did not")


def batch_of(folder: Path, *students: str, **more) -> Batch:
    return Batch(job_in(folder, **more), load_course(write_course(folder / "course")), submissions_of(*students))


def pair(task: Task | None) -> tuple[str, str]:
    assert task is not None
    return task.exercise, task.student


def test_a_class_goes_exercise_by_exercise_and_what_came_before_is_known(tmp_path):
    batch = batch_of(tmp_path, "a", "b")
    tasks = [batch.take() for _ in range(3)]
    assert list(map(pair, tasks)) == [(BASE, "a"), (BASE, "b"), (TOP, "a")] and tasks[2].known == {}
    graded = Result(student="b", exercise=BASE, status="graded", points=1.0, max_points=4.0, official=True, key="k")
    assert batch.settle(tasks[1], finished(graded)) is None
    last = batch.take()
    assert pair(last) == (TOP, "b") and last.known[BASE].points == 1.0 and set(last.files) == {BASE, TOP}
    assert batch.settle(last, finished(lost_result("b", TOP, "oh"))) == Done(student="b", graded=EXERCISES, errors={TOP: "oh"})
    assert batch.take() is None and not batch.is_over


def test_what_became_of_a_submission_is_told_in_the_order_of_the_course(tmp_path):
    batch = batch_of(tmp_path, "a")
    first, second = batch.take(), batch.take()
    assert batch.settle(second, finished(lost_result("a", TOP, "oh"))) is None
    done = batch.settle(first, finished(lost_result("a", BASE, "no")))
    assert done.graded == list(done.errors) == EXERCISES


def test_what_dies_is_tried_before_everything_else_and_only_once_more(tmp_path):
    batch = batch_of(tmp_path, "a", "b", only={"a": [BASE], "b": [BASE]})
    first = batch.take()
    assert batch.settle(first, Died("exit -9")) is None
    again = batch.take()
    assert pair(again) == pair(first) == (BASE, "a")
    assert batch.settle(again, Died("exit -9")).errors.keys() == {BASE}
    assert pair(batch.take()) == (BASE, "b")


def test_where_nothing_depends_runners_stay_with_an_exercise_and_keep_out_of_each_others_way(tmp_path):
    only = {f"{name}{number}": [name] for number in range(3) for name in (BASE, TOP)}
    batch = batch_of(tmp_path, *only, only=only, carry_forward=False)
    at, given = {1: "", 2: ""}, []
    for runner in (1, 2, 2, 1, 1, 1):
        task = batch.take(at[runner], {at[3 - runner]})
        at[runner] = task.exercise
        given.append(task.student)
    assert given == [f"{BASE}0", f"{TOP}0", f"{TOP}1", f"{BASE}1", f"{BASE}2", f"{TOP}2"]
    assert batch.take() is None


@pytest.fixture
def runners(monkeypatch) -> list[Runner]:
    """All runners that are started."""
    started: list[Runner] = []
    real = Runner.__init__
    monkeypatch.setattr(Runner, "__init__", lambda self, job: (started.append(self), real(self, job))[1])
    return started


def is_alive(runner: Runner) -> bool:
    return runner.process.poll() is None


def test_a_batch_that_is_closed_early_leaves_no_process(play, tmp_path, monkeypatch, runners):
    monkeypatch.setattr(Runner, "command", ("-m", "tests.grader.playing_runners", "playing"))
    only = {name: [BASE] for name in "abcdefgh"}
    batch = grade_class(job_in(tmp_path, only=only), submissions_of(*only), 2)
    next(batch)
    batch.close()
    assert len(runners) == 2 and not any(map(is_alive, runners))
    assert len(list((tmp_path / "results").glob("*/ex01.json"))) < 8


def test_the_parent_of_the_runners_imports_no_torch():
    code = "import sys, grader.grading.batch\nprint([name for name in ('torch', 'numpy', 'pytest') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


# --- what a runner does with one submission after the other ---


@pytest.fixture
def classroom(tmp_path) -> Path:
    """A small course and a class of six."""
    write_course(tmp_path / "course")
    hand_in = tmp_path / "submissions"
    write_submission(hand_in, "all", base=DOUBLE, top=QUADRUPLE)
    write_submission(hand_in, "late", base=DOUBLE)
    write_submission(hand_in, "wrong", base=DOUBLE.replace("2 * x", "3 * x"), top=QUADRUPLE)
    write_submission(hand_in, "typo", base="def double(x\n", top=QUADRUPLE)
    write_submission(hand_in, "exits", base="import os\ndef double(x):\n    os._exit(0)\n", top=QUADRUPLE)
    (hand_in / "nothing").mkdir()
    return tmp_path


@pytest.fixture
def graded(classroom, sandbox, monkeypatch) -> Callable[..., dict[str, list[Finished]]]:
    """Grades the class in this process, in the order of a batch; the probe is told what to find."""

    def graded(*students: str, could: Sequence[str] = (), **more) -> dict[str, list[Finished]]:
        monkeypatch.setattr("grader.grading.grade.probe", lambda *_: list(could))
        job = job_in(classroom, **more)
        grade = grading(job, sandbox)
        found = [one for one in find_submissions(classroom / "submissions") if one.key in students or not students]
        batch, answers = Batch(job, load_course(job.root), found), {one.key: [] for one in found}
        while (task := batch.take()) is not None:
            answers[task.student].append(grade(task))
            batch.settle(task, answers[task.student][-1])
        return answers

    return graded


def results(classroom: Path) -> dict[tuple[str, str], Result]:
    found = [read_result(path) for path in (classroom / "results").glob("*/ex*.json")]
    return {(result.student, result.exercise): result for result in found}


def stamps(classroom: Path) -> dict[tuple[str, str], int]:
    return {(path.parent.name, path.stem): path.stat().st_mtime_ns for path in (classroom / "results").glob("*/ex*.json")}


def changed(classroom: Path, before: dict[tuple[str, str], int]) -> set[tuple[str, str]]:
    return {name for name, stamp in stamps(classroom).items() if before.get(name) != stamp}


def test_a_class_is_graded(classroom, graded):
    done = graded()
    assert {student: [one.kept for one in finished] for student, finished in done.items()} == {
        student: [False, False] for student in ("all", "exits", "late", "nothing", "typo", "wrong")
    }
    found = results(classroom)
    assert {student: found[student, BASE].points for student in done} == {
        **{"all": 4, "late": 4, "wrong": 1, "typo": 0, "exits": 0, "nothing": None},
    }
    assert {student: (found[student, TOP].points, found[student, TOP].prerequisites) for student in done} == {
        **{"all": (6, "own"), "late": (None, "own"), "nothing": (None, "own")},
        **dict.fromkeys(("wrong", "typo", "exits"), (6, "reference")),
    }
    assert all(result.official == (result.status == "graded") for result in found.values())


def test_only_what_changed_is_graded_again(classroom, graded):
    graded()
    before = stamps(classroom)
    done = graded()
    assert all(one.kept for finished in done.values() for one in finished) and changed(classroom, before) == set()

    # One file of one student, half a result, something else in its place, another student's, and an error.
    write_submission(classroom / "submissions", "late", top=QUADRUPLE)
    path = classroom / "results/all/ex01.json"
    path.write_bytes(path.read_bytes()[:-40])
    (classroom / "results/wrong/ex01.json").write_text("{}")
    write_result(classroom / "results", lost_result("typo", BASE, "died"))
    before = stamps(classroom)
    done = graded()
    again = {("late", "ex02"), ("all", "ex01"), ("wrong", "ex01"), ("typo", "ex01")}
    assert changed(classroom, before) == again
    assert {(student, one.exercise[:4]) for student, finished in done.items() for one in finished if not one.kept} == again
    assert results(classroom)["late", TOP].points == 6 and results(classroom)["typo", BASE].points == 0

    suite = classroom / "course/tests/hidden/test_ex02_top.py"
    suite.write_text(suite.read_text().replace("of anything", "of whatever"))
    before = stamps(classroom)
    graded()
    assert changed(classroom, before) == {(student, "ex02") for student in done}


def test_unofficial_results_are_graded_again_once_they_can_be_official(classroom, graded):
    graded("all", "nothing", could=["read a file of the host"])
    before = stamps(classroom)
    assert not any(result.official for result in results(classroom).values())
    done = graded("all", "nothing", could=["read a file of the host"])
    assert changed(classroom, before) == set()
    done = graded("all", "nothing")
    assert {one.status for finished in done.values() for one in finished if one.kept} == {"missing"}
    assert all(result.official for result in results(classroom).values() if result.status == "graded")


def test_the_seed_of_a_batch_is_that_of_every_result(classroom, graded):
    graded("all", "late", seed=77)
    assert {result.seed for result in results(classroom).values()} == {77}


def test_a_failure_of_the_graders_own_is_that_exercises_error(classroom, graded, monkeypatch):
    real = Grader.grade

    def grade(self, exercise, files, **options):
        if exercise.file == BASE and options["student"] == "all":
            raise ZeroDivisionError("oh")
        return real(self, exercise, files, **options)

    monkeypatch.setattr(Grader, "grade", grade)
    write_result(
        classroom / "results", Result(student="all", exercise=BASE, status="graded", points=4, max_points=4, official=True)
    )
    base, top = graded("all")["all"]
    assert (base.status, base.reason, top.status) == ("error", "the grader failed: ZeroDivisionError: oh", "graded")
    assert results(classroom)["all", BASE].reason == base.reason


def test_a_learner_is_not_blamed_for_a_zygote_that_was_killed(classroom, graded, sandbox, monkeypatch):
    real, runs = Grader.grade, []

    def grade(self, exercise, files, **options):
        if options["student"] == "all" and exercise.file == BASE:
            runs.append(exercise.file)
            if len(runs) == 1:
                os.kill(sandbox._zygote, signal.SIGKILL)
                time.sleep(0.2)
                return lost_result("all", BASE, "whatever came of it")
        return real(self, exercise, files, **options)

    monkeypatch.setattr(Grader, "grade", grade)
    assert [one.status for one in graded("all")["all"]] == ["graded", "graded"] and len(runs) == 2
    assert results(classroom)["all", BASE].points == 4


@pytest.mark.parametrize("broken", ["solutions/chaffs/ex01_base/triple.py", "course.toml"])
def test_a_broken_course_is_found_before_the_first_submission(classroom, graded, broken):
    (classroom / "course" / broken).write_text("def double(x:\n")
    with pytest.raises((MaterialError, CourseError), match=f"{broken}, line 1"):
        graded()


# --- with real runners ---


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_class_is_graded_though_its_runner_is_killed_and_the_batch_interrupted(classroom, runners):
    write_submission(classroom / "submissions", "all", base="import time\ntime.sleep(1.2)\n" + DOUBLE, top=QUADRUPLE)
    submissions = find_submissions(classroom / "submissions")
    left: list[int] = []

    def kill() -> None:
        """Wait until the first runner's worker loads the slow file, then kill the runner."""
        while not (runners and runners[0].task and len(list(descendants(runners[0].process.pid))) >= 3):
            time.sleep(0.05)
        left.extend(descendants(runners[0].process.pid))
        os.kill(runners[0].process.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    batch = grade_class(job_in(classroom), submissions, 1)
    first = next(batch)
    killer.join()
    assert first.student == "all" and first.graded == EXERCISES and not first.errors and len(runners) == 2
    batch.close()  # as Ctrl-C does
    assert len(stamps(classroom)) < 2 * len(submissions)
    before = stamps(classroom)
    done = {one.student: one for one in grade_class(job_in(classroom), submissions, 2)}
    assert done.keys() == {one.key for one in submissions} and done["all"].kept == EXERCISES
    assert not any(one.errors for one in done.values())
    found = results(classroom)
    assert len(found) == 2 * len(submissions)
    assert changed(classroom, before).isdisjoint({("all", "ex01"), ("all", "ex02")})
    assert {student: found[student, BASE].points for student in done} == {
        **{"all": 4, "late": 4, "wrong": 1, "typo": 0, "exits": 0, "nothing": None},
    }
    assert left and not any(map(runs, left)), "workers outlive their runner"
    assert not any(map(is_alive, runners))
