"""How often the judge of speed is wrong, and how often it says nothing: verdicts on code whose place is known, from real workers,
with no, two and four busy processes beside it.

    python bench/judge.py [--verdicts N] [--busy 0 2 4]

Ctrl-C, or SIGTERM, ends a part early and shows what it has.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402

from grader.sandbox.client import Limits, Package, Sandbox  # noqa: E402

BUSY = "while True: sum(range(100000))"
LOOP = """
def work(numbers):
    total = 0
    for _ in range({times}):
        for number in numbers:
            total += number
    return total // {times}
"""
TENSORS = """
import torch

def work(x):
    for _ in range({times}):
        y = x.exp() + x
    return y.sum(dim=0)
"""
BASE, ANCHOR = 20, 120  # the anchor does six times the reference's work: the limit lies at 2.4 times
PLACES = {"as the reference": (20, "pass"), "1.5 times": (30, "pass"), "5 times": (100, "fail"), "as the anchor": (120, "fail")}


class Workload(NamedTuple):
    """One kind of work, and its inputs."""

    name: str
    source: str

    def package(self, times: int, name: str = "exercises") -> Package:
        """Code that does the work so often."""
        return Package(main="work", files={"work.py": self.source.format(times=times).encode()}, name=f"{name}_{self.name}")

    def inputs(self) -> tuple:
        """Fresh ones."""
        if self.source == LOOP:
            return (torch.randint(1, 1000, (600,)).tolist(),)
        return (torch.randn(128, 128),)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--verdicts", type=int, default=336, help="for each number of busy processes")
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 2, 4], help="busy processes beside the judge")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Sandbox("auto", start="fork") as sandbox:
        for busy in options.busy:
            others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
            try:
                run(sandbox, busy, options.verdicts)
            finally:
                for other in others:
                    other.kill()
                    other.wait()


def run(sandbox: Sandbox, busy: int, verdicts: int) -> None:
    """So many verdicts, over all workloads and places in turn."""
    from grader.sandbox.remote import Remote, Session
    from grader.suite.arms import Contest
    from grader.suite.judge import check_same, settle

    cases = [(workload, place) for place in PLACES for workload in (Workload("loop", LOOP), Workload("tensors", TENSORS))]
    found: dict[str, Counter[str]] = {place: Counter() for place in PLACES}
    wrong, walls, rounds, start = 0, [], [], time.perf_counter()
    with contextlib.suppress(KeyboardInterrupt):
        for number in range(verdicts):
            workload, place = cases[number % len(cases)]
            times, right = PLACES[place]
            contest = Contest(
                sandbox=sandbox,
                learner=workload.package(times),
                reference=workload.package(BASE, "reference"),
                slow=workload.package(ANCHOR, "slow"),
                limits=Limits(),
            )
            function = Remote(Session(lambda: None)).work
            began = time.perf_counter()
            with sandbox.one_core():  # as in a run of a suite
                verdict = settle(
                    lambda fresh, c=contest, f=function, w=workload: c.arms(f, w.inputs(), fresh=fresh),
                    workload.inputs,
                    check_same,
                    gap=3.0,
                )
            walls.append(time.perf_counter() - began)
            rounds.append(verdict.rounds)
            found[place][verdict.verdict] += 1
            if verdict.verdict not in (right, "not_assessed"):
                wrong += 1
                print(f"  wrong: {place}: {verdict}", flush=True)
    count = len(walls)
    if not count:
        return
    load, unsaid = os.getloadavg()[0], sum(counts["not_assessed"] for counts in found.values())
    seconds, cores = time.perf_counter() - start, os.cpu_count()
    print(f"{busy} busy processes, {count} verdicts in {seconds:.0f} s, load {load:.1f} on {cores} cores")
    print(f"  wrong {wrong}, inconclusive {unsaid} ({unsaid / count:.1%})")
    print(f"  a verdict takes {statistics.median(walls):.2f} s and {statistics.median(rounds):g} rounds (medians)")
    for place, counts in found.items():
        print(f"  {place:18s} {', '.join(f'{word} {count}' for word, count in counts.most_common())}", flush=True)


if __name__ == "__main__":
    main()
