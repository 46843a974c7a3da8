"""What a learner reads when their code raised, or called what it must not."""

from __future__ import annotations

import os
import re

from grader.sandbox.client import Package
from grader.sandbox.program import PROPS
from grader.sandbox.remote import ForbiddenCall, LearnerError

MAX_MESSAGE = 4000  # characters
NOT_STARTED = "is not written yet"
EARLIER_STUB = "is still as the stub has it"
PROPS_FILE = f"{PROPS}.py"  # the suite's own, in the learner's package


def forbidden_sentence(error: ForbiddenCall) -> str:
    """What a learner reads when the spy saw a forbidden call."""
    names = [name for name in error.names if "._" not in name] or error.names  # torch's private ones tell a learner little
    return f"the code calls {' and '.join(f'`{name}`' for name in names)}, which this exercise asks you to write by hand"


def is_stub(error: LearnerError) -> bool:
    """Whether a name is still as the stub has it; torch raises errors of this type, too."""
    return error.type == "NotImplementedError" and (not error.message or re.match(r"EX\d\d: ", error.message) is not None)


def learner_error(error: LearnerError, package: Package) -> str:
    """An exception of the learner's, with the line of theirs that raised it."""
    loading = error.what == "import"
    if is_stub(error) and not loading:
        earlier = re.match(r"EX(\d\d): (.*)", error.message)
        if earlier and not package.main.startswith(f"ex{earlier[1]}_"):
            return f"exercise {earlier[1]} comes first: its `{earlier[2]}` {EARLIER_STUB}"
        return f"{error.what} {NOT_STARTED}"
    if error.type == "MissingName" and not loading:
        file, _, name = error.message.rpartition(".")
        return f"{file or package.main}.py has no `{name}`; the name is part of the contract"
    place = ""
    for file, line, _ in reversed(error.frames):
        source = package.files.get(os.path.basename(file))
        if source is not None and os.path.basename(file) != PROPS_FILE:
            lines = source.decode("utf-8", "replace").splitlines()
            text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
            place = f"\n  {os.path.basename(file)}, line {line}:  {text[:200]}"
            break
    return f"{error.type}: {error.message}{place}" if loading else f"{error}{place}"


def fit(text: str | None) -> str | None:
    """A message as it can be kept: not endless, and no half characters, whatever a learner's code put into it."""
    return None if text is None else text[:MAX_MESSAGE].encode("utf-8", "replace").decode("utf-8")
