"""Measures tokens per second of a learner's own model, for a leaderboard that gives no points.

The time is the CPU time of the worker's process, read from the kernel by this process: code cannot lie about it, and what else the machine
does hardly matters. Every round has a fresh prompt, and counts only if the tokens are those of the reference with the same weights.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from grader.course import Course, CourseError, load_course
from grader.sandbox.client import Sandbox, Worker
from grader.submission import Problem, SourceFile

Files = Callable[[str], SourceFile | Problem]

ROUNDS, NEEDED = 5, 3
PROMPT, NEW = 16, 64  # tokens
SIZES = {
    "vocab_size": 256, "hidden_size": 128, "num_layers": 4, "num_heads": 4, "num_kv_heads": 2, "head_dim": 32,
    "intermediate_size": 384, "max_position_embeddings": 256,
}  # fmt: skip
SECONDS = 120.0  # for the whole measurement, import of torch included
MODEL, GENERATE = 14, 15  # exercises


def can_be_measured(course: Course) -> bool:
    """Whether this course has the two exercises, as its author numbered them."""
    try:
        return "CausalLM" in course.exercise(MODEL).names and "generate" in course.exercise(GENERATE).names
    except CourseError:
        return False


def measure(root: Path, files: Files, isolation: str = "auto") -> float | None:
    """Tokens per second in a process of its own, whose end harms nobody; None where it cannot be told."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, root, files, isolation), daemon=True)
    process.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(SECONDS) else None
        return found if isinstance(found, float) else None
    except (EOFError, OSError):
        return None
    finally:
        process.kill()
        process.join()
        ours.close()


def _serve(connection: Connection, root: Path, files: Files, isolation: str) -> None:
    import torch  # before the fork: the zygote inherits it

    torch.set_num_threads(1)
    with Sandbox(isolation, start="fork") as sandbox:
        connection.send(tokens_per_second(load_course(root), files, sandbox))


def tokens_per_second(course: Course, files: Files, sandbox: Sandbox) -> float | None:
    """The median over the rounds in which the tokens were right; None if too few were, or the code failed."""
    import msgspec

    from grader.grading.materials import make_suite, read_materials
    from grader.sandbox.client import WorkerGone
    from grader.sandbox.remote import ForbiddenCall, LearnerError, Local, Remote, Session

    exercise = course.exercise(GENERATE)
    materials = read_materials(course, exercise)
    needed = (*materials.prerequisites, exercise)
    contents = {f"{one.file}.py": file.content for one in needed if isinstance(file := files(one.file), SourceFile)}
    if len(contents) < len(needed) or not materials.references:
        return None
    suite = make_suite(course, materials, contents, seed=0)
    assert suite.reference is not None
    local = Local(suite.reference)
    try:
        with sandbox.worker(msgspec.structs.replace(suite.learner, forbidden={}), suite.limits) as worker:
            learner, reference = Remote(Session(lambda: worker)), Remote(Session(lambda: local))
            return _rounds(worker, learner, reference, course.exercise(MODEL).file)
    except (WorkerGone, LearnerError, ForbiddenCall):
        return None
    finally:
        local.close()


def _rounds(worker: Worker, learner: Any, reference: Any, file: str) -> float | None:
    import torch

    model, right = (side.file(file).CausalLM(side.file("config").ModelConfig(**SIZES)) for side in (learner, reference))
    # Weights much larger than a model starts with: then the likeliest token is never nearly as likely as the next one.
    state = {name: 4 * value if value.dim() > 1 else value for name, value in right.state_dict().items()}
    for one in (model, right):
        one.load_state_dict(state)
        one.eval()
    speeds = []
    for number in range(ROUNDS + 1):
        worker.refill()
        prompt = torch.randint(0, SIZES["vocab_size"], (1, PROMPT))
        before = cpu_seconds(worker.pid)
        tokens = learner.generate(model, prompt, NEW, temperature=0)
        spent = cpu_seconds(worker.pid) - before
        is_right = isinstance(tokens, torch.Tensor) and torch.equal(tokens, reference.generate(right, prompt, NEW, temperature=0))
        if number and is_right and spent > 0:  # the first round warms up
            speeds.append(NEW / spent)
    return float(statistics.median(speeds)) if len(speeds) >= NEEDED else None


def cpu_seconds(pid: int) -> float:
    """CPU time that all threads of another process have used so far."""
    return time.clock_gettime((~pid << 3) | 2)
