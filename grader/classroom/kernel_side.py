"""What a notebook imports, as `ladder_check`, from the ladder.zip beside it. Needs nothing but Python; the work is done elsewhere.

start("ex06")   lets cells import earlier exercises, as `from .ex03_norm import RMSNorm` or `from exercises.ex03_norm import ...`
check("ex06")   runs the public examples on what would be graded now, and prints what is right and what is wrong
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import types
import zipfile

ARCHIVE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 900  # of one check, at most
MISSING = "No module named "


def start(label):
    """Make `exercises` a package of the files in this folder, of earlier assignments beside it, and of what the course gives."""
    here = os.getcwd()
    beside = sorted(name for name in os.listdir(os.path.dirname(here)) if name.startswith("ex") and name[2:].isdigit())
    earlier = [os.path.join(os.path.dirname(here), name) for name in beside if name < label]
    package = types.ModuleType("exercises")
    package.__path__ = [here, *reversed(earlier), os.path.join(_unpacked(), "given")]
    sys.modules["exercises"] = package
    shell = _shell()
    if shell is not None:
        shell.user_ns["__package__"] = "exercises"  # so that relative imports work in cells


def check(label):
    """Print the verdict on the solution cell, as it was last run, or on the .py file: on what would be graded now."""
    module = _module(label)
    cell = _last_run(f"# solution of {module}")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "grader.classroom.in_notebook", label, os.getcwd()]
        if cell is not None:
            path = os.path.join(folder, "cell")
            with open(path, "w", encoding="utf-8") as file:
                file.write(cell)
            command.append(path)
        try:
            done = subprocess.run(command, cwd=_unpacked(), capture_output=True, text=True, timeout=SECONDS, errors="replace")
        except subprocess.TimeoutExpired:
            print(f"The check did not end within {SECONDS // 60} minutes.")
            return
    print(done.stdout, end="")
    if done.returncode not in (0, 1) and not done.stdout:
        last = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        if MISSING in last:
            print(f"This notebook's Python lacks a package ({last}). Please tell your instructor.")
        else:
            print(f"The check itself failed: {last}\nPlease tell your instructor.")


def _shell():
    try:
        return get_ipython()
    except NameError:  # not in a notebook
        return None


def _last_run(mark):
    """The source of the solution cell when it was last run in this kernel; None if it was not."""
    shell = _shell()
    history = [] if shell is None else shell.user_ns.get("In", [])
    return next((source for source in reversed(history) if source.lstrip().startswith(mark)), None)


def _module(label):
    with zipfile.ZipFile(ARCHIVE) as archive:
        names = [name[len("exercises/") : -3] for name in archive.namelist() if name.startswith(f"exercises/{label}_")]
    return names[0]


def _unpacked():
    """The archive as a folder: made once, under a name that says what is in it, so a new release makes a new one."""
    with open(ARCHIVE, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:16]
    home = os.path.join(os.path.expanduser("~"), ".cache", "attention-ladder")
    try:
        os.makedirs(home, exist_ok=True)
        folder = os.path.join(home, digest)
        if not os.path.isdir(folder):
            building = tempfile.mkdtemp(dir=home)
            with zipfile.ZipFile(ARCHIVE) as archive:
                archive.extractall(building)
            try:
                os.rename(building, folder)
            except OSError:  # another kernel was faster
                shutil.rmtree(building, ignore_errors=True)
        return folder
    except OSError:  # no home to write to
        if not hasattr(_unpacked, "folder"):
            _unpacked.folder = tempfile.mkdtemp()
            with zipfile.ZipFile(ARCHIVE) as archive:
                archive.extractall(_unpacked.folder)
        return _unpacked.folder
