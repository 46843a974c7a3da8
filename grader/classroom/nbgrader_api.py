"""Owns the way to nbgrader's Python API (imports nbgrader): its configuration as the command line would read it, and its errors."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .folder import Classroom, ClassroomError

TESTED = "0.9"


SLOW_CHECKS = "rfc3987_syntax"  # jsonschema's check of one format of text, which no notebook uses; it takes seconds to import


def _import() -> Any:
    absent = sys.modules.setdefault(SLOW_CHECKS, None) is None  # type: ignore[arg-type] # jsonschema does without
    try:
        import nbgrader
        from nbgrader.apps.api import NbGraderAPI
        from nbgrader.apps.baseapp import NbGrader
    except ImportError as error:
        raise ClassroomError(f"nbgrader cannot be imported ({error}): `make setup-instructor` installs it") from None
    finally:
        if absent:
            del sys.modules[SLOW_CHECKS]
    version = getattr(nbgrader, "__version__", "0")
    if not version.startswith(f"{TESTED}."):
        raise ClassroomError(f"nbgrader {version} is installed; the classroom works with {TESTED}.x, from 0.9.3 on")
    return NbGrader, NbGraderAPI


def configured(root: Path) -> Any:
    """The configuration in a folder's own nbgrader_config.py; empty where there is none."""
    _import()
    from traitlets.config import Config
    from traitlets.config.loader import PyFileConfigLoader

    if not (root / "nbgrader_config.py").is_file():
        return Config()
    try:
        return PyFileConfigLoader("nbgrader_config.py", str(root)).load_config()
    except Exception as error:  # it is a program: anything may happen
        reason = f"{type(error).__name__}: {error}"
        raise ClassroomError(f"{root / 'nbgrader_config.py'} cannot be read: {reason}") from None


@contextlib.contextmanager
def opened(classroom: Classroom) -> Iterator[Any]:
    """An `NbGraderAPI` with the configuration of the classroom, in the classroom's folder, and quiet."""
    NbGrader, NbGraderAPI = _import()
    before, path = os.getcwd(), os.environ.get("PATH", "")
    os.chdir(classroom.root)  # nbgrader reads the configuration of its working directory
    os.environ["PATH"] = os.pathsep.join(filter(None, (str(Path(sys.executable).parent), path)))  # it runs `alembic`
    try:
        NbGrader.clear_instance()
        app = NbGrader(log_level=logging.CRITICAL)
        with contextlib.redirect_stderr(io.StringIO()) as noise:
            try:
                app.initialize([])
            except SystemExit:
                raise ClassroomError(f"nbgrader cannot read its configuration: {_last_line(noise.getvalue())}") from None
        app.log.handlers[:] = []
        app.log.propagate = False
        app.log.setLevel(logging.INFO)
        api = NbGraderAPI(config=app.config, parent=app)
        _check(classroom, api)
        with warnings.catch_warnings(), _one_engine():
            warnings.simplefilter("ignore")  # nbgrader's own, of its database: nothing that an instructor could mend
            yield api
    finally:
        NbGrader.clear_instance()
        os.environ["PATH"] = path
        os.chdir(before)


@contextlib.contextmanager
def _one_engine() -> Iterator[None]:
    """One database engine for all that is done here. nbgrader opens ten for each submission, and each compiles every query anew:
    a quarter of its work."""
    import nbgrader.api as gradebook

    before = gradebook.create_engine
    gradebook.create_engine = functools.cache(before)
    try:
        yield
    finally:
        gradebook.create_engine = before


def _check(classroom: Classroom, api: Any) -> None:
    """The configuration is the one that init wrote, or at least includes it."""
    directory = api.coursedir
    config = classroom.root / "nbgrader_config.py"
    if Path(directory.root).resolve() != classroom.root.resolve() or "OurStep" not in api.config:
        raise ClassroomError(f"{config} does not load ladder_config.py: let its first line be load_subconfig('ladder_config.py')")
    steps = [str(step) for step in api.config.Autograde.get("autograde_preprocessors", [])]
    if not any("WriteScores" in step for step in steps) or any(step.endswith(".Execute") for step in steps):
        raise ClassroomError(f"{config} sets Autograde.autograde_preprocessors itself; without ours no result can be written")
    if Path(directory.format_path("x", "y", "z")).resolve() != (classroom.root / "x" / "y" / "z").resolve():
        raise ClassroomError(
            "this course has its own CourseDirectory.directory_structure; the classroom needs nbgrader's default"
        )


def failure(outcome: dict[str, Any]) -> str | None:
    """Why a call of the API did not succeed, in one line; None if it did."""
    if outcome.get("success"):
        return None
    log = [line.strip() for line in outcome.get("log", "").splitlines() if line.strip()]
    for line in reversed(log):  # the error itself comes last in a traceback
        if re.match(r"([a-z_]+\.)*StandingError: ", line):
            return line.partition(": ")[2]
    errors = [line.partition("] ")[2] for line in log if line.startswith("[ERROR]") and "Traceback" not in line]
    wanted = [line for line in errors if not line.startswith(("There was an error processing", "Please see the", "Did you mean"))]
    traced = [line for line in log if re.match(r"([A-Za-z_]+\.)*[A-Z][A-Za-z]*(Error|Exception|Exit|Entry): ", line)]
    return (wanted or traced or [_last_line(outcome.get("error", "")) or "no reason was given"])[-1]


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
