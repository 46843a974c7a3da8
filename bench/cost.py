"""What checking costs, in CPU and wall time of whole process trees, against `import torch` and against one fresh pytest
process per submission. Everything is measured interleaved in one run; compare ratios, not seconds.

    python bench/cost.py [--rounds N] [--students N]      one check, and one exercise of a class
    python bench/cost.py --ladder [--students N]          a class on all exercises but training, four of five handed in right
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
EXERCISES = ("ex06_repeat_kv", "ex07_attention", "ex08_mask")
TRAINING = "ex16_train"
PR_SET_CHILD_SUBREAPER = 36


class Cost(NamedTuple):
    """Seconds of one command and everything it started."""

    wall: float
    cpu: float


def measure(*command: object, code: int | None = 0, cwd: Path = ROOT) -> Cost:
    """Run a command to its end. Orphans come to this process, so their CPU time is counted, too."""
    start = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall, cpu = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
    process.returncode = os.waitstatus_to_exitcode(status)
    if code is not None and process.returncode != code:
        raise SystemExit(f"{command} ended with {process.returncode}:\n{output.decode()}")
    try:
        while True:
            _, _, usage = os.wait4(-1, 0)
            cpu += usage.ru_utime + usage.ru_stime
    except ChildProcessError:
        return Cost(wall, cpu)


def median(costs: list[Cost]) -> Cost:
    """Of wall and CPU time, each for itself."""
    return Cost(statistics.median(cost.wall for cost in costs), statistics.median(cost.cpu for cost in costs))


def ladder(students: int) -> None:
    """CPU per student and exercise, and what `import torch` takes before and after: the unit of a machine that does other things."""
    names = [path.stem for path in sorted((ROOT / "solutions").glob("ex*.py")) if path.stem != TRAINING]
    random = Random(1)
    before = measure(sys.executable, "-c", "import torch").cpu
    costs = {}
    for size in (1, students):
        with tempfile.TemporaryDirectory() as folder:
            for number in range(size):
                for name in names:
                    right = [ROOT / f"solutions/{name}.py", *sorted((ROOT / f"solutions/wheats/{name}").glob("*.py"))]
                    wrong = sorted((ROOT / f"solutions/chaffs/{name}").glob("*.py"))
                    path = Path(folder, "class", f"student{number:03d}", f"{name}.py")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(random.choice(wrong if number and random.random() < 0.2 else right), path)
            wanted = ",".join(name[2:4] for name in names)
            command = (sys.executable, "-m", "grader", "grade", Path(folder, "class"), "--out", Path(folder, "results"))
            costs[size] = measure(*command, "--exercises", wanted, "--jobs", "1").cpu
    each = (costs[students] - costs[1]) / ((students - 1) * len(names))
    after = measure(sys.executable, "-c", "import torch").cpu
    unit = (before + after) / 2
    print(
        f"{students} students, {len(names)} exercises: {each:.2f} s of CPU per student and exercise, {each / unit:.2f} of `import torch`"
    )
    print(f"(`import torch`: {before:.2f} and {after:.2f} s; load at the end {os.getloadavg()[0]:.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--students", type=int, default=12, help="right and wrong submissions of one exercise")
    parser.add_argument("--ladder", action="store_true", help="all exercises but training")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    grader = (sys.executable, "-m", "grader")
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores, Python {sys.version.split()[0]}\n")
    if options.ladder:
        ladder(options.students)
        return

    torch, check, wrong, fresh = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        tiled = Path(folder, "tiled")
        tiled.mkdir()
        shutil.copy(ROOT / "solutions/chaffs/ex06_repeat_kv/tiles_heads.py", tiled / "ex06_repeat_kv.py")
        right = Path(folder, "right")
        right.mkdir()
        shutil.copy(ROOT / "solutions/ex06_repeat_kv.py", right)
        for _ in range(options.rounds):
            torch.append(measure(sys.executable, "-c", "import torch"))
            check.append(measure(*grader, "check", "06", "--from", right))
            wrong.append(measure(*grader, "check", "06", "--from", tiled, code=1))
            fresh.append(measure(sys.executable, "bench/fresh_pytest.py", right, "06"))
    base = median(torch)
    print("one check, cold (medians)            wall     CPU   wall / torch   CPU beyond torch")
    for name, costs in (
        ("import torch", torch),
        ("check 06, right", check),
        ("check 06, wrong", wrong),
        ("fresh pytest process", fresh),
    ):
        cost = median(costs)
        print(f"{name:32s} {cost.wall:6.2f} s {cost.cpu:5.2f} s {cost.wall / base.wall:11.2f} {cost.cpu - base.cpu:15.2f} s")

    print("\na class, CPU per submission          ours   fresh pytest   ratio")
    for exercise in EXERCISES:
        sources = [ROOT / f"solutions/{exercise}.py", *sorted((ROOT / f"solutions/wheats/{exercise}").glob("*.py"))]
        chaffs = sorted((ROOT / f"solutions/chaffs/{exercise}").glob("*.py"))
        step = max(1, len(chaffs) // (options.students // 2))
        chosen = [*[sources[i % len(sources)] for i in range(options.students // 2)], *chaffs[::step][: options.students // 2]]
        with tempfile.TemporaryDirectory() as folder:
            for index, source in enumerate(chosen):
                path = Path(folder, "class", f"student{index:03d}", f"{exercise}.py")
                path.parent.mkdir(parents=True)
                shutil.copy(source, path)
            (Path(folder) / "one").mkdir()
            shutil.copytree(Path(folder, "class", "student000"), Path(folder, "one", "student000"))
            some = (*grader, "grade", "--exercises", exercise, "--jobs", "1")
            one = measure(*some, Path(folder, "one"), "--out", Path(folder, "r1"))
            many = measure(*some, Path(folder, "class"), "--out", Path(folder, "r2"))
            each = (many.cpu - one.cpu) / (len(chosen) - 1)
            alone = median(
                [
                    measure(sys.executable, "bench/fresh_pytest.py", path.parent, exercise)
                    for path in [Path(folder, "class", f"student{i:03d}", "x") for i in (0, len(chosen) - 1)]
                ]
            )
        print(f"{exercise:32s} {each:6.2f} s {alone.cpu:10.2f} s {alone.cpu / each:9.1f}")


if __name__ == "__main__":
    main()
