"""The `doctor` command: machine, versions, device, and what the isolation here really prevents."""

from __future__ import annotations

import os
import platform
import shutil
import sys

import msgspec
import torch
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.course import Course
from grader.grading.grade import versions
from grader.sandbox.client import Sandbox, SandboxError
from grader.sandbox.probe import WORDS, probe

TIER_NAMES = {
    "A": "private root, namespaces, Landlock, seccomp, limits",
    "B": "Landlock, seccomp, limits",
    "C": "separate process, limits",
    "D": "separate process",
}


class Findings(msgspec.Struct, kw_only=True):
    """What `doctor` found."""

    facts: list[tuple[str, str]]
    tier: str | None
    layers: list[str]
    refusals: list[str]
    probe: list[str] | None  # None: no worker could be had
    problem: str | None = None


def examine(course: Course, sandbox: Sandbox) -> Findings:
    """Look at this machine and let the hostile probe loose in the sandbox."""
    facts = [
        ("system", f"{platform.system()} {platform.release()} on {platform.machine()}, {os.cpu_count()} cores"),
        ("python", f"{platform.python_version()} in {sys.prefix}"),
        *((name, version) for name, version in versions().items() if name != "python"),
        ("device", _device()),
        ("course", f"{course.name}: {len(course.exercises)} exercises in {course.root}"),
        ("free disk", f"{shutil.disk_usage(course.root).free / 1e9:.1f} GB"),
    ]
    secret = next((path for path in sorted((course.root / "solutions").glob("ex*.py"))), course.root / "course.toml")
    try:
        could = probe(sandbox, secret)
    except SandboxError as error:
        return Findings(facts=facts, tier=sandbox.tier, layers=[], refusals=sandbox.refusals, probe=None, problem=str(error))
    return Findings(facts=facts, tier=sandbox.tier, layers=sandbox.layers, refusals=sandbox.refusals, probe=could)


def _device() -> str:
    if torch.cuda.is_available():
        return f"cpu, and {torch.cuda.get_device_name(0)} (GPU tests are assessed)"
    return "cpu (tests that need a GPU are left out of the score)"


def show(console: Console, findings: Findings) -> None:
    """Print the findings and what follows from them."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for name, value in findings.facts:
        table.add_row(name, Text(value))
    if findings.tier:
        table.add_row("isolation", Text(f"tier {findings.tier}: {TIER_NAMES[findings.tier]}", style="bold"))
        table.add_row("layers", Text(", ".join(findings.layers) or "none"))
    for refusal in findings.refusals:
        table.add_row("refused", Text(refusal, style="yellow"))
    console.print()
    console.print(Padding(table, (0, 2)))
    console.print()
    if findings.problem:
        console.print(Text(f"  {findings.problem}\n", style="red"))
        return
    if not findings.probe:
        console.print(
            Text(
                f"  The hostile probe made {len(WORDS)} attempts and could do nothing: results graded here are official.\n",
                style="green",
            )
        )
        return
    console.print(Text(f"  The hostile probe made {len(WORDS)} attempts, and could:", style="yellow"))
    for words in findings.probe:
        console.print(Text(f"    - {words}", style="yellow"))
    console.print(
        Text(
            "\n  Fine for your own work. Results graded here are marked as not official: for a class, use Linux with tier A or B.\n",
            style="yellow",
        )
    )
