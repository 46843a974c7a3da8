"""Loaded by Dask workers in tests (`--preload`): their runners only play, and their course is the test's."""

import os
from pathlib import Path

from grader.grading import cluster_worker
from grader.grading.local import Runner

cluster_worker.ROOT = Path(os.environ["PLAYING_COURSE"])
if os.environ.get("PLAYING_RUNNERS"):
    Runner.command = ("-m", "tests.grader.playing_runners", "playing")
