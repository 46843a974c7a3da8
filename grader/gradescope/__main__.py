"""`python -m grader.gradescope AUTOGRADER`: grades one upload, in the environment that every process of the grader has."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from grader.sandbox.environment import clean_environment, is_clean

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Tokens and settings of the caller's do not get near learner code, so the process starts anew without them."""
    if not is_clean():
        os.execve(sys.executable, [sys.executable, "-m", "grader.gradescope", *sys.argv[1:]], clean_environment())
    if len(sys.argv) != 2:
        print("usage: python -m grader.gradescope AUTOGRADER, the folder that holds submission/ and results/", file=sys.stderr)
        return 2
    from .run import run

    sys.stdout.reconfigure(errors="replace")  # whatever characters code prints, and whatever the container's locale
    return run(Path(sys.argv[1]), ROOT)


if __name__ == "__main__":
    sys.exit(main())
