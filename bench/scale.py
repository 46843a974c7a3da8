"""What a class costs as it grows: CPU time per submission on 1 and 2 local Dask workers, and the memory of the command that collects.

    python bench/scale.py [--exercise EX] [--sizes 100,400,700,1000] [--workers 1,2]

A batch has a fixed cost (each worker imports torch once), so what is compared is the cost of each further submission, in seconds and as
a share of what `import torch` takes before and after the batch: the machine is not equally fast all the time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cluster import ROOT, Dask, cpu_seconds, grade_command, load, write_class


def numbers(text: str) -> list[int]:
    """ "1,2" as numbers."""
    return sorted(int(part) for part in text.split(","))


def peak_memory(pid: int) -> float:
    """Megabytes that a process held at most; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


def run(command: list[str]) -> tuple[float, float]:
    """Seconds that a command took, and the most memory that it held."""
    start, most = time.perf_counter(), 0.0
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while process.poll() is None:
        most = max(most, peak_memory(process.pid))
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"grade ended with {process.returncode}:\n{process.stdout.read()}")
    return time.perf_counter() - start, most


def import_torch() -> float:
    """Seconds of CPU time that a process takes to import torch, by the median of three."""
    costs = []
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", "import torch"])
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        costs.append(usage.ru_utime + usage.ru_stime)
    return statistics.median(costs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exercise", default="08")
    parser.add_argument("--sizes", type=numbers, default=[100, 400, 700, 1000])
    parser.add_argument("--workers", type=numbers, default=[1, 2])
    options = parser.parse_args()
    from grader.course import load_course

    exercise = load_course(ROOT).exercise(options.exercise)
    print(f"{load()}, exercise {exercise.label}\n")
    print("workers  submissions    wall   per second   CPU each further one  of `import torch`   memory of the command   load")
    for workers in options.workers:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            dask = Dask(folder)
            try:
                for _ in range(workers):
                    dask.add_worker()
                before: tuple[int, float] | None = None
                unit = import_torch()
                for size in options.sizes:
                    write_class(folder / f"class{size}", exercise.file, size)
                    spent = sum(cpu_seconds(worker.pid) for worker in dask.workers)
                    command = grade_command(folder / f"class{size}", folder / f"results{size}", exercise.label)
                    wall, memory = run([*command, "--scheduler", str(dask.file)])
                    cost = sum(cpu_seconds(worker.pid) for worker in dask.workers) - spent
                    earlier, unit = unit, import_torch()
                    further = ""
                    if before is not None:
                        each = (cost - before[1]) / (size - before[0])
                        further = f"{each:.3f} s {each / ((earlier + unit) / 2):17.3f}"
                    before = size, cost
                    last = load().split()[1]
                    row = f"{workers:7d} {size:12d} {wall:7.0f} s {size / wall:9.2f} {further:>41s} {memory:20.0f} MB {last:>6s}"
                    print(row, flush=True)
            finally:
                dask.end()


if __name__ == "__main__":
    main()
