"""The kit of this very course: nothing of the answers is in it, what its README tells is true, and its workflow runs."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest
import yaml

from grader.authoring.kit import make_kit
from grader.authoring.papers import learners_makefile
from grader.authoring.stubs import AuthoringError, stub_of
from grader.course import Course, load_course
from tests.grader.kits import run_in, write_kit

ROOT = Path(__file__).resolve().parents[2]
TILED = "import torch\n\n\ndef repeat_kv(x, n_rep):\n    return x.repeat(1, 1, n_rep, 1)\n"
# Lines of right solutions that have to stand in what learners get as well: signatures of the contract, torch's own words.
SAID_ANYWAY = {
    '"""Tokens held by the fullest layer."""',
    "def update(self, k: Tensor, v: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:",
    "def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, cache: Any = None) -> Tensor:",
    "if torch.cuda.is_available():",
    "while len(losses) < steps:",
    "model.load_state_dict(weights)",
}


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kit(load_course(ROOT), tmp_path_factory.mktemp("learner") / "kit")


@pytest.fixture
def fresh(kit: Path, course: Course) -> Path:
    """The kit with untouched stubs and without any memory."""
    for exercise in course.exercises:
        (kit / "exercises" / f"{exercise.file}.py").write_text(stub_of(course, exercise))
    shutil.rmtree(kit / ".ladder", ignore_errors=True)
    return kit


def texts(kit: Path) -> dict[str, str]:
    made = (".venv", ".ladder", "__pycache__")
    paths = [path for path in kit.rglob("*") if path.is_file() and not any(part in made for part in path.relative_to(kit).parts)]
    return {path.relative_to(kit).as_posix(): path.read_text() for path in paths}


def words(text: str) -> str:
    return " ".join(text.split())


# ---- what is not in it -------------------------------------------------------------------------------------------------


def test_no_line_of_a_solution_is_in_it(kit: Path, course: Course):
    handed_out = {words(line): name for name, text in texts(kit).items() for line in text.splitlines()}
    looked_at = 0
    for exercise in course.exercises:
        stub = {words(line) for line in stub_of(course, exercise).splitlines()}
        folders = (course.wheats_dir(exercise), course.chaffs_dir(exercise))
        for path in (course.solution_path(exercise), *(path for folder in folders for path in folder.glob("*.py"))):
            for line in map(words, path.read_text().splitlines()):
                if len(line) < 25 or line in stub or re.match(r"(from|import) ", line) or line in SAID_ANYWAY:
                    continue
                looked_at += 1
                assert line not in handed_out, f"{handed_out[line]} holds a line of {path}: {line}"
    assert looked_at > 5000


def test_no_hidden_test_and_no_hint_is_in_it(kit: Path, course: Course):
    everything = words("\0".join(texts(kit).values()))
    names = set(re.findall(r"\w+", everything))
    secrets = 0
    for exercise in course.exercises:
        public = course.public_test_path(exercise).read_text()
        for node in ast.walk(ast.parse(course.hidden_test_path(exercise).read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and node.name not in public:
                secrets += 1
                assert node.name not in names
                assert words(ast.get_docstring(node)) not in everything
        for path in course.chaffs_dir(exercise).glob("*.py"):
            assert "_" not in path.stem or path.stem not in names
            assert words(ast.get_docstring(ast.parse(path.read_text()))) not in everything
            secrets += 1
    assert secrets > 500
    assert not [name for name in texts(kit) if re.search(r"hidden|solutions|chaff|wheat|\.git/", name)]


# ---- what its README and Makefile say ----------------------------------------------------------------------------------


def targets(makefile: str) -> set[str]:
    return {name for line in makefile.splitlines() if (found := re.match(r"([a-z][a-z -]*):", line)) for name in found[1].split()}


def test_every_command_that_the_readme_names_is_there(kit: Path):
    readme, known = (kit / "README.md").read_text(), targets((kit / "Makefile").read_text())
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)", " ".join(re.findall(r"`([^`\n]+)`", readme)) + readme.split("```")[1]))
    assert {"check", "hint", "look", "progress", "doctor", "pretrain", "talk", "submit", "setup"} <= named
    assert named <= known, named - known
    shown = run_in(kit, "make", "help").stdout
    for command in set(re.findall(r"python -m grader ([a-z]+)", readme)) | (named - {"setup"}):
        assert re.search(rf"^│ {command} ", shown, re.MULTILINE), command


def test_every_file_that_the_readme_names_is_there(kit: Path):
    readme = (kit / "README.md").read_text()
    linked = {target for target in re.findall(r"\]\(([^)]+)\)", readme) if not target.startswith("#")}
    quoted = {
        name for name in re.findall(r"`([\w./-]+)`", readme) if "/" in name or name.endswith((".py", ".txt", ".md", ".yml"))
    }
    made_later = {".ladder/", "exercises/exNN_name.py"}
    for name in (linked | quoted) - made_later:
        assert (kit / name).exists() or (kit / "exercises" / name).exists(), name
    headings = {heading.lower().replace(" ", "-") for heading in re.findall(r"^## (.+)$", readme, re.MULTILINE)}
    for target in re.findall(r"\]\(#([^)]+)\)", readme):
        assert target in headings
    for word in ("instructor", "docs/", "hidden", "git clone", "verify", "solutions", "{"):
        assert word not in readme, word


def test_the_makefile_holds_what_learners_run_and_nothing_else(kit: Path):
    makefile = (kit / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert targets(makefile) == set(phony.split())
    assert not targets(makefile) & {"verify", "stubs", "kit", "grade", "report", "gradescope", "test", "lint", "setup-instructor"}
    for word in ("instructor", "[test]", "hypothesis", "classroom"):
        assert word not in makefile
    tops = set(re.findall(r"^#   make (\w+)", makefile, re.MULTILINE))
    assert tops <= targets(makefile)


def test_an_instructor_may_choose_the_torch_that_learners_install(tmp_path: Path):
    words = "torch==2.13.0 --index-url address/of/cpu"
    text = learners_makefile((ROOT / "Makefile").read_text(), words)
    assert f"TORCH ?= {words}\n" in text
    for bad in ("torch; rm -rf ~", "torch>=2", "$(shell id)", "numpy", "torch `id`"):
        with pytest.raises(AuthoringError, match="--torch"):
            make_kit(load_course(ROOT), tmp_path / "kit", bad)


# ---- what it prints ----------------------------------------------------------------------------------------------------


def names_something_missing(kit: Path, printed: str) -> list[str]:
    """Files and commands in a command's output that this folder does not have."""
    known = targets((kit / "Makefile").read_text())
    missing = [f"make {name}" for name in re.findall(r"\bmake ([a-z]+)", printed) if name not in known]
    for name in re.findall(r"(?<![\w/.])((?:exercises|tests|grader|docs|solutions)/[\w./-]*\w)", printed):
        if not (kit / name).exists():
            missing.append(name)
    return missing


@pytest.mark.slow
def test_no_command_refers_to_something_that_is_not_there(fresh: Path):
    printed = ""
    for source in (None, TILED, (ROOT / "solutions/ex06_repeat_kv.py").read_text()):
        if source is not None:
            (fresh / "exercises/ex06_repeat_kv.py").write_text(source)
        for command in ("check", "look", "hint", "submit"):
            printed += run_in(fresh, "make", command, "EX=06").stdout
    printed += run_in(fresh, "make", "progress").stdout + run_in(fresh, "make", "hint", "EX=06").stdout
    assert (
        "0 of 5 examples" in printed
        and "5 of 5 examples" in printed
        and "make hint EX=06" in printed
        and "submission.zip" in printed
    )
    assert not names_something_missing(fresh, printed)
    gone = run_in(fresh, "make", "gradescope")
    assert gone.returncode == 2 and "No rule to make target" in gone.stderr


# ---- the workflow ------------------------------------------------------------------------------------------------------


def workflow(kit: Path) -> dict:
    return yaml.safe_load((kit / ".github/workflows/check.yml").read_text())


def push(kit: Path, summary: Path, **variables: str):
    """What GitHub does after a push, but for the checkout: each step's script in bash, stopping at the first that fails."""
    for step in workflow(kit)["jobs"]["check"]["steps"]:
        if "run" not in step:
            continue
        script = re.sub(r"\$\{\{.*?\}\}", "", step["run"])
        done = run_in(kit, "bash", "-e", "-o", "pipefail", "-c", script, GITHUB_STEP_SUMMARY=str(summary), **variables)
        if done.returncode:
            break
    return done


def test_the_workflow_is_valid_and_asks_for_little(kit: Path):
    found = workflow(kit)
    assert set(found[True]) == {"push", "workflow_dispatch"}  # YAML 1.1 reads the key `on` as true
    assert found["permissions"] == {"contents": "read"}
    job = found["jobs"]["check"]
    assert job["timeout-minutes"] <= 60 and job["env"] == {"CHOSEN_TORCH": "${{ vars.TORCH }}"}
    scripts = [step["run"] for step in job["steps"] if "run" in step]
    assert len(scripts) == 2 and not any("${{" in script for script in scripts)  # nothing from outside becomes part of a script


@pytest.mark.slow
def test_a_push_is_red_only_for_what_was_begun(fresh: Path, tmp_path: Path):
    first = push(fresh, tmp_path / "first.md")
    assert first.returncode == 0, first.stdout + first.stderr
    summary = (tmp_path / "first.md").read_text()
    assert summary.count("not started") == 16 and "❌" not in summary

    shutil.copy(ROOT / "solutions/ex06_repeat_kv.py", fresh / "exercises")
    done = push(fresh, tmp_path / "done.md")
    assert done.returncode == 0
    summary = (tmp_path / "done.md").read_text()
    assert summary.count("not started") == 15 and "| ✅ | 06 Repeat key and value heads | 5 of 5 examples |" in summary

    (fresh / "exercises/ex06_repeat_kv.py").write_text(TILED + "# ``` <script>\n")
    wrong = push(fresh, tmp_path / "wrong.md")
    assert wrong.returncode == 2 and "Error 1" in wrong.stderr
    summary = (tmp_path / "wrong.md").read_text()
    assert "| ❌ | 06" in summary and "### 06 Repeat key" in summary and "`make check EX=06`" in summary


def test_the_repositorys_variable_chooses_torch(kit: Path, tmp_path: Path):
    """The Install step, with a make that only says how it was called."""
    (script,) = [step["run"] for step in workflow(kit)["jobs"]["check"]["steps"] if step.get("name") == "Install"]
    (tmp_path / "make").write_text('#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\n')
    (tmp_path / "make").chmod(0o755)
    for chosen, expected in (("", ""), ("torch==2.13.0 --index-url x", "<TORCH=torch==2.13.0 --index-url x>\n")):
        done = run_in(kit, "bash", "-ec", script, CHOSEN_TORCH=chosen, PATH=f"{tmp_path}:/usr/bin:/bin")
        assert done.stdout == f"<setup>\n<PYTHON=python>\n{expected}"
