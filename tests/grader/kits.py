"""A kit on disk for tests, with an environment that `make` takes for installed: nothing is downloaded, nothing shared is changed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from grader.authoring.kit import make_kit
from grader.course import Course


def write_kit(course: Course, folder: Path) -> Path:
    """A fresh kit with a `.venv` of its own, in which the packages of this Python are found."""
    make_kit(course, folder)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    packages = next((folder / ".venv" / "lib").glob("python*/site-packages"))
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (folder / ".venv" / ".core").touch()
    return folder


def run_in(folder: Path, *command: str, tracebacks: bool = False, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a person does who has entered the folder; `tracebacks`: whether it may print one."""
    ours = ("ATTENTION_LADDER", "LADDER_", "MAKE", "MFLAGS", "ARGS")  # what runs these tests may have been given arguments
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"COLUMNS": "100", "NO_COLOR": "1", **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=170)
    assert tracebacks or "Traceback" not in done.stdout + done.stderr, done.stderr
    return done
