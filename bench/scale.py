"""What a class costs as it grows: CPU time per submission on 1 and 2 local Dask workers, and the memory of the command that collects.

    python bench/scale.py [--exercise EX] [--sizes 100,300,1000] [--workers 1,2]

A batch has a fixed cost (each worker imports torch once), so what is compared is the cost of each further submission.
"""

from __future__ import annotations

import argparse
import subprocess
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exercise", default="08")
    parser.add_argument("--sizes", type=numbers, default=[100, 300, 1000])
    parser.add_argument("--workers", type=numbers, default=[1, 2])
    options = parser.parse_args()
    from grader.course import load_course

    exercise = load_course(ROOT).exercise(options.exercise)
    print(f"{load()}, exercise {exercise.label}\n")
    print("workers  submissions    wall   per second   CPU each further one   memory of the command   load")
    for workers in options.workers:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            dask = Dask(folder)
            try:
                for _ in range(workers):
                    dask.add_worker()
                before: tuple[int, float] | None = None
                for size in options.sizes:
                    write_class(folder / f"class{size}", exercise.file, size)
                    spent = sum(cpu_seconds(worker.pid) for worker in dask.workers)
                    command = grade_command(folder / f"class{size}", folder / f"results{size}", exercise.label)
                    wall, memory = run([*command, "--scheduler", str(dask.file)])
                    cost = sum(cpu_seconds(worker.pid) for worker in dask.workers) - spent
                    further = "" if before is None else f"{(cost - before[1]) / (size - before[0]):.3f} s"
                    before = size, cost
                    last = load().split()[1]
                    row = f"{workers:7d} {size:12d} {wall:7.0f} s {size / wall:9.2f} {further:>22s} {memory:20.0f} MB {last:>6s}"
                    print(row, flush=True)
            finally:
                dask.end()


if __name__ == "__main__":
    main()
