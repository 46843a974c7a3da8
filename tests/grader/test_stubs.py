"""Stubs: what is left of a solution once the marked lines are gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.authoring.stubs import AuthoringError, make_stub, stale_stubs, write_stubs
from grader.course import Course, Exercise, load_course

ROOT = Path(__file__).resolve().parents[2]

SOLUTION = '''"""Repeat heads."""

import torch
from torch import Tensor


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    """Each head next to its copies."""
    # BEGIN SOLUTION
    return torch.repeat_interleave(x, n_rep, dim=2)
    # END SOLUTION
'''

STUB = '''"""Repeat heads."""

from torch import Tensor


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    """Each head next to its copies."""
    raise NotImplementedError("EX06: repeat_kv")
'''

CONFIG = '"""Sizes."""\n\nSIZE = 1  # BEGIN of something\n'


def stub(source: str, *names: str) -> str:
    exercise = Exercise(number=6, file="ex06_x", title="T", points=1, names=names or ("f",))
    return make_stub(source, exercise, name="solutions/ex06_x.py")


def refused(source: str, *names: str) -> str:
    with pytest.raises(AuthoringError) as caught:
        stub(source, *names)
    assert str(caught.value).startswith("solutions/ex06_x.py")
    return str(caught.value).removeprefix("solutions/ex06_x.py")


def marked(body: str, head: str = "def f(x):\n", tail: str = "") -> str:
    return f"{head}    # BEGIN SOLUTION\n{body}    # END SOLUTION\n{tail}"


@pytest.fixture
def course(tmp_path) -> Course:
    """A course of one exercise, without stubs."""
    (tmp_path / "course.toml").write_text(
        '[course]\nname = "Small"\nschema = 1\n[[exercise]]\nnumber = 6\nfile = "ex06_repeat_kv"\n'
        'title = "T"\npoints = 1\nnames = ["repeat_kv"]\n'
    )
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "ex06_repeat_kv.py").write_text(SOLUTION)
    (tmp_path / "solutions" / "config.py").write_text(CONFIG)
    return load_course(tmp_path)


def test_the_projects_own_stubs_are_up_to_date():
    assert stale_stubs(load_course(ROOT)) == [], "run `python -m grader stubs`"


# ---- on disk ---------------------------------------------------------------------------------------------------------


def test_missing_stubs_are_written_once(course):
    files = ["exercises/config.py", "exercises/ex06_repeat_kv.py"]
    assert stale_stubs(course) == files
    assert write_stubs(course) == files
    assert (course.root / files[0]).read_text() == CONFIG
    assert (course.root / files[1]).read_text() == STUB
    assert stale_stubs(course) == write_stubs(course) == []
    assert sorted(path.name for path in course.exercises_dir.iterdir()) == ["config.py", "ex06_repeat_kv.py"]


@pytest.mark.parametrize("content", [STUB.replace("\n", "\r\n").encode(), STUB[:-1].encode(), b"\xff", b""])
def test_any_difference_on_disk_is_stale(course, content):
    write_stubs(course)
    course.exercise_path(course.exercises[0]).write_bytes(content)
    assert stale_stubs(course) == write_stubs(course) == ["exercises/ex06_repeat_kv.py"]
    assert stale_stubs(course) == []


def test_a_changed_solution_makes_its_stub_stale_only_if_the_stub_changes(course):
    write_stubs(course)
    path = course.solution_path(course.exercises[0])
    path.write_text(SOLUTION.replace("dim=2", "2"))
    assert stale_stubs(course) == []
    path.write_text(SOLUTION.replace("next to", "beside"))
    assert stale_stubs(course) == ["exercises/ex06_repeat_kv.py"]


def test_a_mistake_in_one_solution_writes_nothing(course):
    path = course.solution_path(course.exercises[0])
    path.write_text(SOLUTION.replace("    # END SOLUTION\n", ""))
    for use in (write_stubs, stale_stubs):
        with pytest.raises(AuthoringError, match=r"^solutions/ex06_repeat_kv\.py, line 9: .*never closed"):
            use(course)
    assert not course.exercises_dir.exists()


def test_a_stub_that_cannot_be_written_is_said(course):
    course.exercise_path(course.exercises[0]).mkdir(parents=True)
    with pytest.raises(AuthoringError, match=r"ex06_repeat_kv\.py: cannot be written"):
        write_stubs(course)
    assert sorted(path.name for path in course.exercises_dir.iterdir()) == ["config.py", "ex06_repeat_kv.py"]


@pytest.mark.parametrize("name", ["ex06_repeat_kv.py", "config.py"])
def test_a_missing_or_unreadable_solution_is_said(course, name):
    path = course.solutions_dir / name
    path.write_bytes(b"x = 1\ny = '\xff'\n")
    with pytest.raises(AuthoringError, match=rf"{name}, line 2: not UTF-8"):
        write_stubs(course)
    path.unlink()
    with pytest.raises(AuthoringError, match=rf"{name}: no such file"):
        write_stubs(course)


# ---- what a region becomes -------------------------------------------------------------------------------------------


def test_methods_are_named_with_their_class():
    source = (
        "class RMSNorm:\n"
        "    def __init__(self):\n"
        "        # BEGIN SOLUTION\n"
        "        self.x = 1\n"
        "        # END SOLUTION\n"
        "\n"
        "    def forward(self, x):\n"
        "        if x:\n"
        "            # BEGIN SOLUTION\n"
        "            return 1\n"
        "            # END SOLUTION\n"
        "        return 2\n"
    )
    assert stub(source, "RMSNorm") == (
        "class RMSNorm:\n"
        "    def __init__(self):\n"
        '        raise NotImplementedError("EX06: RMSNorm.__init__")\n'
        "\n"
        "    def forward(self, x):\n"
        "        if x:\n"
        '            raise NotImplementedError("EX06: RMSNorm.forward")\n'
        "        return 2\n"
    )


def test_functions_within_a_solution_belong_to_it():
    body = "    def inner(y):\n        for _ in y:\n            yield _\n\n    class C:\n        pass\n\n    return inner\n"
    assert stub(marked(body)) == 'def f(x):\n    raise NotImplementedError("EX06: f")\n'
    inner = "        # BEGIN SOLUTION\n        return x\n        # END SOLUTION\n"
    nested = f"def f(x):\n    def inner():\n{inner}\n    return inner\n"
    assert 'raise NotImplementedError("EX06: f")' in stub(nested)


@pytest.mark.parametrize(
    "block",
    [
        "    try:\n        return 1\n    except ValueError:\n        return 2\n    finally:\n        x = 3\n",
        "    match x:\n        case 1:\n            return 2\n        case _:\n            return 3\n",
        "    if x:\n        return 1\n    else:\n        return 2\n",
        "    return [\n        1,\n    ]\n",
        '    return """\n# END SOLUTION\n"""\n',
    ],
)
def test_any_whole_block_can_be_marked(block):
    assert stub(marked(block)) == 'def f(x):\n    raise NotImplementedError("EX06: f")\n'


def test_a_block_within_a_handler_or_a_case_can_be_marked():
    source = (
        "def f(x):\n"
        "    try:\n"
        "        match x:\n"
        "            case 1:\n"
        "                # BEGIN SOLUTION\n"
        "                return 1\n"
        "                # END SOLUTION\n"
        "    except ValueError:\n"
        "        # BEGIN SOLUTION\n"
        "        return 2\n"
        "        # END SOLUTION\n"
    )
    assert stub(source).count('raise NotImplementedError("EX06: f")') == 2


def test_helpers_outside_of_functions_vanish_with_their_blank_lines():
    helper = "# BEGIN SOLUTION\nLIMIT = 3\n\n\ndef helper(x):\n    return math.sqrt(x)\n\n\n# END SOLUTION\n"
    f = marked("    return helper(x)\n")
    expected = 'def f(x):\n    raise NotImplementedError("EX06: f")\n'
    assert stub(f'"""Doc."""\n\nimport math\n\n\n{helper}\n\n{f}') == f'"""Doc."""\n\n\n{expected}'
    assert stub(f"import math\n\n\n{f}\n\n{helper}") == expected
    assert stub(f"import math\n\n\n{helper}\n\n{f}\n\nEND = 1\n") == f"{expected}\n\nEND = 1\n"


def test_methods_outside_of_functions_vanish_within_a_class():
    source = (
        "class A:\n"
        '    """Doc."""\n'
        "\n"
        "    # BEGIN SOLUTION\n"
        "    @property\n"
        "    def helper(self):\n"
        "        return 1\n"
        "    # END SOLUTION\n"
        "\n"
        "    def f(self):\n"
        "        # BEGIN SOLUTION\n"
        "        return self.helper\n"
        "        # END SOLUTION\n"
        "\n"
        "\n"
        "END = 1\n"
    )
    assert stub(source, "A") == (
        'class A:\n    """Doc."""\n\n    def f(self):\n        raise NotImplementedError("EX06: A.f")\n\n\nEND = 1\n'
    )


def test_markers_within_strings_are_text():
    source = 'def f(x):\n    """\n    # BEGIN SOLUTION\n    """\n' + marked("    return '# END SOLUTION'\n", head="")
    assert stub(source) == 'def f(x):\n    """\n    # BEGIN SOLUTION\n    """\n    raise NotImplementedError("EX06: f")\n'


# ---- imports ---------------------------------------------------------------------------------------------------------


def imports(head: str, body: str = "    return 1\n", signature: str = "def f(x):\n", tail: str = "") -> str:
    """What stands before the function in the stub."""
    return stub(f"{head}\n\n\n{marked(body, head=signature, tail=tail)}").split("def f")[0].split("class")[0].strip()


@pytest.mark.parametrize(
    ("head", "body", "kept"),
    [
        ("import math", "    return math.pi\n", ""),
        ("import math\nimport os", "    return math.pi\n", "import os"),  # os was unused before: not ours to judge
        ("import math as m\nimport math", "    return m.pi\n", "import math"),
        ("import torch.nn.functional as F\nimport torch.nn", "    return F.x + torch.y\n", ""),
        ("import math, os", "    return math.pi\n", "import os"),
        ("from a import b as c, d, e", "    return c + e\n", "from a import d"),
        ("from .ex03_norm import RMSNorm", "    return RMSNorm(x)\n", ""),
        ("from .. import a, b", "    return a\n", "from .. import b"),
        (
            "from __future__ import annotations\n\nimport math",
            "    return math\n",
            "from __future__ import annotations",
        ),
        ("import math\n\nimport torch", "    return math.pi\n", "import torch"),
        ("import math\n\nimport torch", "    return torch.x\n", "import math"),
        ("from a import (\n    b,  # why\n    c,\n)", "    return b\n", "from a import c"),
        ("from a import (\n    b,  # why\n    c,\n)", "    return 1\n", "from a import (\n    b,  # why\n    c,\n)"),
    ],
)
def test_imports_that_only_the_solution_used_are_dropped(head, body, kept):
    assert imports(head, body) == kept


@pytest.mark.parametrize(
    "signature",
    [
        "def f(x: Tensor):\n",
        "def f(x) -> Tensor:\n",
        'def f(x: "list[Tensor]"):\n',
        "def f(x=Tensor.default):\n",
        "def f(x):\n    y: Tensor\n",
        "@Tensor.wrap\ndef f(x):\n",
    ],
)
def test_imports_that_the_signature_uses_are_kept(signature):
    source = "from torch import Tensor, nn\n\n\n" + marked("    return Tensor(nn)\n", head=signature)
    assert stub(source).startswith("from torch import Tensor\n\n\n")


def test_imports_used_elsewhere_or_exported_are_kept():
    tail = '\n\n__all__ = ["pi"]\n\n\nclass A(Base):\n    pass\n'
    kept = imports("from a import Base, gone, pi", "    return Base, gone, pi\n", tail=tail)
    assert kept == "from a import Base, pi"


def test_a_long_import_is_wrapped():
    names = ", ".join(f"some_quite_long_name_{number}" for number in range(6))
    source = f"from a import gone, {names}\n\n\n{marked('    return gone' + chr(10), head=f'def f(x=({names})):' + chr(10))}"
    result = stub(source)
    assert result.startswith("from a import (\n    some_quite_long_name_0,\n")
    assert "gone" not in result


# ---- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(x):\n    return 1\n", ": no line '# BEGIN SOLUTION'"),
        ("def f(x):\n    # BEGIN SOLUTION\n    return 1\n", ", line 2: '# BEGIN SOLUTION' is never closed"),
        ("def f(x):\n    return 1\n    # END SOLUTION\n", ", line 3: '# END SOLUTION' without"),
        (marked("    # BEGIN SOLUTION\n    return 1\n"), ", line 3: '# BEGIN SOLUTION' again, but line 2"),
        (marked("    return 1\n        # END SOLUTION\n"), ", line 4: '# END SOLUTION' is not indented like line 2"),
        (marked("    return 1\n", tail="    # END SOLUTION\n"), ", line 5: '# END SOLUTION' without"),
        ("def f(x):  # BEGIN SOLUTION\n    return 1\n    # END SOLUTION\n", ", line 1: .* line of its own"),
        ("def f(x):\n    # begin solution\n    return 1\n", ", line 2: '# begin solution' must read"),
        ("def f(x):\n    #BEGIN SOLUTION\n    return 1\n", ", line 2: '#BEGIN SOLUTION' must read"),
        ("def f(x):\n    ### BEGIN SOLUTION\n    return 1\n", ", line 2: .* must read"),
        ("def f(x):\n    # BEGIN SOLUTION: easy\n    return 1\n", ", line 2: .* must read"),
        (marked(""), ", line 3: not valid Python"),
        (marked("    # only a comment\n", tail="    return 1\n"), ", line 2: no whole statement"),
        (
            "def f(x):\n    return (\n        # BEGIN SOLUTION\n        1\n        # END SOLUTION\n    )\n",
            ", line 3: no whole",
        ),
        (
            "def f(x):\n    y = (\n    # BEGIN SOLUTION\n    1)\n    return y\n    # END SOLUTION\n",
            ", line 3: .* line 2",
        ),
        ("def f(x):\n    # BEGIN SOLUTION\n    y = (\n    # END SOLUTION\n    1)\n", ", line 2: .* cut .* line 3"),
        (
            "def f(x):\n    if x:\n        # BEGIN SOLUTION\n        x = 1\n    else:\n        x = 2\n        # END SOLUTION\n",
            ", line 3: .* more than one block",
        ),
        (marked("    return 1\n\n\ndef g(x):\n    return 2\n"), ", line 2: .* more than one block"),
        ("def f(:\n    pass\n", ", line 1: not valid Python"),
        ("x = '\0'\n", ", line 1: not valid Python"),
        (marked("    return 1\n", head="def g(x):\n"), ": the graded name f is not defined"),
        ("# BEGIN SOLUTION\ndef f(x):\n    return 1\n# END SOLUTION\n", ", line 2: f is graded"),
        (marked("    return 1\n", head="def g(x):\n", tail="\n\ndef f(x):\n    return 2\n"), ", line 7: nothing in f"),
        (
            "# BEGIN SOLUTION\nA = 1\n# END SOLUTION\n\n\n" + marked("    return 1\n", head="def f(x=A):\n"),
            ", line 6: A is used here, but line 2",
        ),
        (
            "class A:\n    # BEGIN SOLUTION\n    x = 1\n    # END SOLUTION\n\n\n" + marked("    return 1\n"),
            ", line 2, 8: without the marked lines",
        ),
    ],
)
def test_a_mistake_is_said_with_its_line(source, message):
    assert re.match(message, refused(source))


def test_a_name_that_a_kept_function_binds_itself_is_no_mistake():
    source = "# BEGIN SOLUTION\nscale = 2\n# END SOLUTION\n\n\n" + marked("    pass\n", head="def f(scale):\n    y = scale\n")
    assert stub(source).startswith("def f(scale):\n    y = scale\n    raise")


def test_a_stub_says_which_exercise_it_belongs_to_when_it_is_called():
    namespace: dict = {}
    exec(stub(marked("    return 1\n")), namespace)
    with pytest.raises(NotImplementedError, match=r"^EX06: f$"):
        namespace["f"](1)
