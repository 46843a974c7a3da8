"""Simulated students: what each writes, does to the notebook, and hands in through nbgrader's own exchange."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[3]
GOOD = {name: (ROOT / f"solutions/{name}.py").read_text() for name in ("ex06_repeat_kv", "ex08_mask")}
PARTIAL = {
    "ex06_repeat_kv": (ROOT / "solutions/chaffs/ex06_repeat_kv/tiles_heads.py").read_text(),
    "ex08_mask": GOOD["ex08_mask"].replace('"#"', '"x"').replace("'#'", "'x'"),
}
ENTRY = {"ex06_repeat_kv": "def repeat_kv(", "ex08_mask": "def causal_mask("}  # the function that every test of shapes calls
CELL = "# solution of {name}: mine\n"


def _wrapped(name: str, body: str, top: str = "") -> str:
    """The right solution whose graded functions first do something else."""
    text = GOOD[name]
    names = [line.split("(")[0].removeprefix("def ") for line in text.split("\n") if line.startswith("def ")]
    wraps = "".join(f"\n\n_{one} = {one}\n\n\ndef {one}(*a, **k):\n    {body}\n    return _{one}(*a, **k)\n" for one in names)
    return top + text + wraps


WRONG = {
    "ex06_repeat_kv": "def repeat_kv(x, n_rep):\n    return None\n",
    "ex08_mask": "def causal_mask(q_len, k_len, device=None):\n    return None\n\n\npadding_mask = combine_masks = show_mask = causal_mask\n",
}
FORGER = """import json, os, sys
for path in ("results.json", "/tmp/ex06.json", "ladder/results/forger/ex06.json"):
    try:
        open(path, "w").write(json.dumps({"points": 10.0, "status": "graded"}))
    except OSError:
        pass
print(10.0)
print(10.0, file=sys.stderr)
"""


def source_of(kind: str, name: str) -> str | None:
    """What stands in the .py file; None: it is not touched."""
    good = GOOD[name]
    files: dict[str, Callable[[], str]] = {
        "partial": lambda: PARTIAL[name],
        "wrong": lambda: WRONG[name],
        "warns": lambda: _wrapped(name, 'warnings.warn("slow"); print("oh", file=sys.stderr)', "import sys, warnings\n"),
        "crash": lambda: _wrapped(name, "os._exit(3)", "import os\n"),
        "segfault": lambda: _wrapped(name, "ctypes.string_at(0)", "import ctypes\n"),
        "loop": lambda: _wrapped(name, "while True: pass"),
        "hog": lambda: _wrapped(name, "x = [bytearray(10**8) for _ in range(1000)]"),
        "forger": lambda: FORGER + WRONG[name],
        "syntax": lambda: good.replace("return ", "return return ", 1),
        "oversized": lambda: good + "#" * 2_000_000,
        "renamed": lambda: None,
        "cell": lambda: None,
        "both": lambda: good,
    }
    return files.get(kind, lambda: good)()


def edit_notebook(kind: str, name: str, notebook: dict[str, Any]) -> dict[str, Any] | None:
    """What a student did to the notebook; None: deleted it."""
    cells = notebook["cells"]
    marks = lambda cell: cell["metadata"].get("nbgrader", {})  # noqa: E731
    by_id = {marks(cell).get("grade_id"): cell for cell in cells}
    if kind == "deleted":
        notebook["cells"] = [cell for cell in cells if marks(cell).get("grade_id") not in ("shape", "solution", "check", "start")]
    elif kind == "duplicated":
        again = [cell for cell in cells if marks(cell).get("grade_id") in ("numerics", "solution", "robustness")]
        notebook["cells"] = json.loads(json.dumps([*again, *cells, *again]))
    elif kind in ("renamed", "cell"):
        by_id["solution"]["source"] = CELL.format(name=name) + "%matplotlib inline\n" + GOOD[name]
    elif kind == "both":
        by_id["solution"]["source"] = CELL.format(name=name) + WRONG[name]
    elif kind == "forger":
        fake = {"output_type": "execute_result", "execution_count": 1, "data": {"text/plain": "99.0"}, "metadata": {}}
        for cell in cells:
            if "points" in marks(cell):
                cell["outputs"] = [fake]
                cell["source"] = "99.0"
                marks(cell).update(points=99.0, solution=marks(cell)["grade_id"] == "shape", locked=False)
        marks(by_id["robustness"])["grade"] = False
        marks(by_id["check"]).update(grade=True, points=50.0)
        marks(by_id["start"])["schema_version"] = 1
        extra = json.loads(json.dumps(by_id["shape"]))
        marks(extra)["grade_id"] = "bonus"
        cells.append(extra)
        notebook["metadata"]["ladder"] = {"score": 10.0}
    elif kind == "empty":
        return None
    return notebook


class Student(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated student with a folder of their own."""

    name: str
    kind: str
    home: Path  # holds ex06/, ex08/ and nbgrader's cache

    def work(self, label: str, module: str) -> None:
        """Write, and do to the notebook what this kind of student does."""
        folder = self.home / label
        source = source_of(self.kind, module)
        if source is not None:
            (folder / f"{module}.py").write_text(source)
        path = folder / f"{label}.ipynb"
        notebook = edit_notebook(self.kind, module, json.loads(path.read_text()))
        path.write_text(json.dumps(notebook or {}))
        if self.kind == "renamed":
            path.rename(folder / "my work (1).ipynb")
        elif self.kind == "corrupt":
            path.write_text("{ this is no notebook")
        elif self.kind == "empty":
            shutil.rmtree(folder)
            folder.mkdir()

    def exchange(self, step: str, label: str, exchange: Path, course_id: str) -> None:
        """`nbgrader fetch_assignment`, `submit` or `fetch_feedback` by its own code, in this process."""
        from nbgrader.auth import Authenticator
        from nbgrader.coursedir import CourseDirectory
        from nbgrader.exchange.default import ExchangeFetchAssignment, ExchangeFetchFeedback, ExchangeSubmit
        from traitlets.config import Config

        kinds = {"fetch_assignment": ExchangeFetchAssignment, "submit": ExchangeSubmit, "fetch_feedback": ExchangeFetchFeedback}
        config = Config()
        config.CourseDirectory.course_id = course_id
        config.CourseDirectory.student_id = self.name
        config.CourseDirectory.assignment_id = label
        config.CourseDirectory.root = str(self.home)
        config.Exchange.root = str(exchange)
        config.Exchange.cache = str(self.home / ".cache")
        config.Exchange.assignment_dir = str(self.home)
        directory = CourseDirectory(config=config)
        with contextlib.chdir(self.home):
            app = kinds[step](coursedir=directory, authenticator=Authenticator(config=config), config=config)
            app.log.setLevel("ERROR")
            app.start()

    def command(self, *arguments: str, config: Path) -> str:
        """The same through nbgrader's real command line."""
        shutil.copy(config, self.home / "nbgrader_config.py")
        return nbgrader(self.home, *arguments, f"--student={self.name}", f"--Exchange.cache={self.home / '.cache'}")


def nbgrader(folder: Path, *arguments: str) -> str:
    """Run nbgrader's command line; returns what it printed."""
    command = [sys.executable, "-m", "nbgrader", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
