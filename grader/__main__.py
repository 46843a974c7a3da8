"""`python -m grader`: starts again with a clean environment, then runs the command."""

from __future__ import annotations

import os
import sys

from grader.sandbox.environment import clean_environment, is_clean


def main() -> None:
    """Torch and the allocator read their settings once, at start, so the settings come before everything."""
    if not is_clean():
        flags = ["-X", "dev"] if sys.flags.dev_mode else []
        os.execve(sys.executable, [sys.executable, *flags, "-m", "grader", *sys.argv[1:]], clean_environment())
    from grader.cli import run

    run()


if __name__ == "__main__":
    main()
