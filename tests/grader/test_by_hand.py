"""The two watchers of "by hand": the scan of the source, and what the spy sees while the code runs in its jail."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path

import pytest

from grader.grading.materials import package
from grader.suite.by_hand import TWINS, ByHandRule, Finding, scan, with_twins

ROOT = Path(__file__).resolve().parents[2]
SDPA, MHA = "torch.nn.functional.scaled_dot_product_attention", "torch.nn.MultiheadAttention"
RULE = ByHandRule([SDPA, MHA])


def found(source: str, rule: ByHandRule = RULE) -> list[Finding]:
    return scan(textwrap.dedent(source).encode(), rule)


USES = {
    "a dotted name": """
        import torch
        def f(q): return torch.nn.functional.scaled_dot_product_attention(q, q, q)
    """,
    "a module's alias": """
        import torch.nn.functional as F
        def f(q): return F.scaled_dot_product_attention(q, q, q)
    """,
    "a module imported from its parent": """
        from torch.nn import functional
        def f(q): return functional.scaled_dot_product_attention(q, q, q)
    """,
    "a function imported by name": "from torch.nn.functional import scaled_dot_product_attention",
    "a function imported under another name": "from torch.nn.functional import scaled_dot_product_attention as softmax",
    "an import inside a function": """
        def f(q):
            from torch.nn.functional import scaled_dot_product_attention as s
            return s(q, q, q)
    """,
    "a class": """
        from torch import nn
        def f(q): return nn.MultiheadAttention(4, 2)(q, q, q)[0]
    """,
    "a class imported under another name": "from torch.nn import MultiheadAttention as M",
    "a class from the module that defines it": """
        import torch
        M = torch.nn.modules.activation.MultiheadAttention
    """,
    "a subclass": """
        import torch.nn as nn
        class Attention(nn.MultiheadAttention): pass
    """,
    "a function assigned to a name": """
        import torch.nn.functional as F
        attend = F.scaled_dot_product_attention
    """,
    "a module assigned to a name": """
        import torch
        nn = torch.nn
        tools = nn.functional
        def f(q): return tools.scaled_dot_product_attention(q, q, q)
    """,
    "a module assigned as one of several": """
        import torch
        a, b = torch.nn, torch.nn.functional
        def f(q): return b.scaled_dot_product_attention(q, q, q)
    """,
    "a module assigned in an expression": """
        import torch
        def f(q): return (tools := torch.nn.functional).scaled_dot_product_attention(q, q, q)
    """,
    "a module with a type": """
        import torch
        tools: object = torch.nn.functional
        def f(q): return tools.scaled_dot_product_attention(q, q, q)
    """,
    "a module as a default": """
        import torch
        def f(q, *, tools=torch.nn.functional): return tools.scaled_dot_product_attention(q, q, q)
    """,
    "a module as an argument": """
        import torch.nn.functional as F
        def call(tools, q): return tools.scaled_dot_product_attention(q, q, q)
        def f(q): return call(F, q)
    """,
    "a module as an attribute": """
        import torch.nn.functional as F
        class Attention:
            def __init__(self): self.tools = F
            def forward(self, q): return self.tools.scaled_dot_product_attention(q, q, q)
    """,
    "a module in a container": """
        import torch.nn.functional as F
        tools = {"attention": F}
        def f(q): return tools["attention"].scaled_dot_product_attention(q, q, q)
    """,
    "a module in a loop": """
        import torch.nn.functional as F
        def f(q):
            for tools in [F]:
                return tools.scaled_dot_product_attention(q, q, q)
    """,
    "getattr with the name": """
        import torch.nn.functional as F
        def f(q): return getattr(F, "scaled_dot_product_attention")(q, q, q)
    """,
    "getattr with the name in parts": """
        import torch.nn.functional as F
        def f(q): return getattr(F, "scaled_dot_" + f"product_attention")(q, q, q)
    """,
    "getattr for the module on the way": """
        import torch
        def f(q): return getattr(torch.nn, "functional").scaled_dot_product_attention(q, q, q)
    """,
    "getattr behind a function": """
        import torch.nn.functional as F
        def call(tools, name, q): return getattr(tools, name)(q, q, q)
        def f(q): return call(F, "scaled_dot_product_attention", q)
    """,
    "attrgetter": """
        import operator, torch
        def f(q): return operator.attrgetter("functional.scaled_dot_product_attention")(torch.nn)(q, q, q)
    """,
    "methodcaller": """
        from operator import methodcaller
        import torch.nn.functional as F
        def f(q): return methodcaller("scaled_dot_product_attention", q, q, q)(F)
    """,
    "a full name in a string": """NAME = "torch.nn.functional.scaled_dot_product_attention" """,
    "a twin of torch's": """
        import torch.nn.functional as F
        def f(q): return F.multi_head_attention_forward(q)
    """,
    "a private twin": """
        import torch
        def f(q): return torch._scaled_dot_product_flash_attention_for_cpu(q, q, q)
    """,
    "a layer with attention inside": """
        from torch.nn import TransformerEncoderLayer
    """,
    "flex attention": "from torch.nn.attention.flex_attention import flex_attention",
}
HIDES = {
    "exec": "exec('import torch')",
    "eval": "f = eval('torch')",
    "compile": "compile('1', '', 'eval')",
    "__import__": "t = __import__('torch')",
    "globals": "globals()['x'] = 1",
    "vars of a module": "import torch\nv = vars(torch.nn)",
    "builtins": "import builtins",
    "builtins by name": "e = __builtins__",
    "importlib": "import importlib",
    "a part of importlib": "import importlib.util",
    "importlib's function": "from importlib import import_module",
    "importlib under another name": "import importlib as i\ndef f(): return i.import_module('torch')",
    "pydoc": "from pydoc import locate",
    "ctypes": "import ctypes",
    "sys.modules": "import sys\nm = sys.modules['torch']",
    "sys.modules by alias": "import sys as s\nm = s.modules['torch']",
    "sys.modules imported": "from sys import modules as m",
    "torch.ops": "import torch\ndef f(q): return torch.ops.aten.softmax(q)",
    "torch.ops imported": "from torch import ops",
    "torch._C": "import torch\ndef f(q): return torch._C._nn.gelu(q)",
    "torch._C imported": "from torch._C import _nn",
    "a star import": "from torch.nn.functional import *",
    "a module's dictionary": "import torch\nf = torch.nn.functional.__dict__",
    "a function's globals": "def f(): pass\ng = f.__globals__",
    "a computed name": "import torch\ndef f(name): return getattr(torch.nn.functional, name)",
    "a computed attrgetter": "from operator import attrgetter\ndef f(name): return attrgetter(name)",
    "dispatch modes": "from torch.utils._python_dispatch import TorchDispatchMode",
    "function modes": "from torch.overrides import TorchFunctionMode",
    "TorchScript from text": "import torch\nu = torch.jit.CompilationUnit('def f(): pass')",
}
ALLOWED = {
    "own functions of the same name": """
        def scaled_dot_product_attention(q, k, v): return q
        def f(q): return scaled_dot_product_attention(q, q, q)
    """,
    "own classes of the same name": """
        from torch import nn
        class MultiheadAttention(nn.Module): pass
        layer = MultiheadAttention()
    """,
    "methods of the same name": """
        class Attention:
            def scaled_dot_product_attention(self, q): return q
            def forward(self, q): return self.scaled_dot_product_attention(q)
        class Special(Attention):
            def forward(self, q): return super().scaled_dot_product_attention(q)
        def f(q): return Attention().scaled_dot_product_attention(q)
    """,
    "own objects with such a method": """
        class Attention:
            def scaled_dot_product_attention(self, q): return q
        class Block:
            def __init__(self): self.attention = Attention()
            def forward(self, q): return self.attention.scaled_dot_product_attention(q)
        def f(layers, q):
            for layer in layers: q = layer.scaled_dot_product_attention(q)
            return layers[0].scaled_dot_product_attention(q)
    """,
    "earlier exercises": """
        from . import ex07_attention
        from .ex07_attention import scaled_dot_product_attention
        import exercises.ex07_attention as seven
        def f(q): return ex07_attention.scaled_dot_product_attention(q, q, q)
        def g(q): return scaled_dot_product_attention(q, q, q) + seven.scaled_dot_product_attention(q, q, q)
    """,
    "__all__": """
        __all__ = ["scaled_dot_product_attention"]
        __all__ += ["MultiheadAttention"]
        __all__: list[str] = ["scaled_dot_product_attention"]
    """,
    "docstrings": '''
        "torch.nn.functional.scaled_dot_product_attention"
        def f(q):
            """scaled_dot_product_attention"""
            "MultiheadAttention"
    ''',
    "comments": "# F.scaled_dot_product_attention(q, k, v) and exec(...)\nx = 1",
    "messages": """
        def scaled_dot_product_attention(q, mask):
            print("scaled_dot_product_attention", q.shape)
            raise ValueError("scaled_dot_product_attention")
    """,
    "names that are data": """
        ACTIVATIONS = {"MultiheadAttention": 1}
        def f(kind): return ACTIVATIONS[kind] if kind != "MultiheadAttention" else ACTIVATIONS["MultiheadAttention"]
        def g(): return f("MultiheadAttention")
    """,
    "annotations and comparisons of types": """
        import torch
        from torch import nn
        def f(layer: nn.MultiheadAttention) -> nn.MultiheadAttention:
            other: nn.MultiheadAttention
            return isinstance(layer, (nn.Linear, nn.MultiheadAttention))
    """,
    "a question whether torch has it": """
        import torch
        has_flash = hasattr(torch.nn.functional, "scaled_dot_product_attention")
    """,
    "everything else of torch": """
        import torch, math, sys
        import torch.nn.functional as F
        from torch.nn.modules import Linear
        @torch.no_grad()
        def f(q, k, v, mask):
            w = F.softmax(torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.size(-1)), dim=-1)
            return torch.nn.functional.dropout(w.masked_fill(~mask, 0), 0.0) @ v
        class Net(torch.nn.Module):
            def walk(self): return [m for m in self.modules()] + list(torch.nn.Sequential(self).modules())
        @torch.jit.script
        def g(x): return x
        def h(model): model.eval(); torch.compile(model); return sys.maxsize
    """,
    "parameters and variables named like built-in functions": """
        def f(compile=False, vars=None):
            eval = 3
            return compile or vars or eval
    """,
    "attributes by computed names on own objects": """
        class Net:
            def __init__(self, n):
                for i in range(n): setattr(self, f"layer_{i}", i)
            def forward(self, i): return getattr(self, f"layer_{i}")
        def f(config, name): return getattr(config, name, None), config.__dict__, self.__dict__
    """,
    "words that only look alike": """
        import torch
        def scaled_dot(q): return q
        def f(q): return torch.nn.MultiheadAttentionless(q) if False else scaled_dot(q)
    """,
}


@pytest.mark.parametrize("source", USES.values(), ids=USES)
def test_a_forbidden_call_is_found_under_any_plain_alias(source):
    assert any("by hand" in finding.sentence for finding in found(source))


@pytest.mark.parametrize("source", HIDES.values(), ids=HIDES)
def test_what_would_hide_a_call_is_found(source):
    assert any("write the call plainly" in finding.sentence for finding in found(source))


@pytest.mark.parametrize("source", ALLOWED.values(), ids=ALLOWED)
def test_right_code_is_let_through(source):
    assert found(source) == []


def test_a_finding_gives_the_line_and_the_documented_name():
    one, two = found(
        "import torch.nn.functional as F\n\n\ndef f(q):\n    x = F.scaled_dot_product_attention(q, q, q)\n    exec('')\n"
    )
    assert one == Finding(5, f"uses `{SDPA}`, which this exercise asks you to write by hand")
    assert two == Finding(6, "uses `exec`, which hides what is called; write the call plainly")


def test_findings_come_in_the_order_of_the_file():
    lines = [finding.line for finding in found("import ctypes\n" * 3 + "from torch.nn import MultiheadAttention\nexec('')\n")]
    assert lines == [1, 2, 3, 4, 5]


def test_right_solutions_have_no_findings(course):
    for exercise in course.exercises:
        for path in (course.solution_path(exercise), *sorted(course.wheats_dir(exercise).glob("*.py"))):
            for rule in exercise.by_hand:
                assert scan(path.read_bytes(), ByHandRule(list(rule.calls), list(rule.names))) == [], path


def test_the_chaffs_of_the_rule_have_findings(course):
    chaffs = sorted((course.solutions_dir / "chaffs" / "ex07_attention").glob("*.py"))
    forbidden = [path.stem for path in chaffs if scan(path.read_bytes(), RULE)]
    assert forbidden == [path.stem for path in chaffs if b'CATEGORY = "by_hand"' in path.read_bytes()] != []


@pytest.mark.parametrize("source", [b"def f(:\n", b"\xff\xfe\x00", b"x = 1\x00", b"(" * 5000, b"x = " + b"-" * 100_000 + b"1"])
def test_a_file_that_cannot_be_parsed_has_none(source):
    assert scan(source, RULE) == []


@pytest.mark.parametrize(
    "source", ["x = " + "+".join(["1"] * 3000), "x" + ".a" * 3000, "getattr(x, " + "+".join(["'a'"] * 3000) + ")"]
)
def test_a_file_nested_too_deeply_is_told_so_or_read(source):
    for finding in scan(source.encode(), RULE):
        assert "nested too deeply" in finding.sentence


@pytest.mark.parametrize(
    "source",
    [
        "=".join(["exec"] * 30_000) + "=[" + "a," * 30_000 + "]",
        ",".join(f"a{i}" for i in range(30_000)) + "=[" + "b," * 20_000 + "]",
        "isinstance(x," + "a," * 30_000 + ")",
        "f(" + "'a'," * 30_000 + ")",
        "\n".join(f"def f{i}(): return f{i + 1}()" for i in range(5_000)),
        "\n".join(f"x = f(x, {i}, [y, z])" for i in range(5_000)),
    ],
    ids=["many targets", "many names", "many types", "many arguments", "many functions", "many assignments"],
)
@pytest.mark.parametrize("names", [[], ["f0"]])
def test_no_file_takes_for_ever_to_read(source, names):
    start = time.process_time()
    scan(source.encode(), ByHandRule([SDPA], names))
    assert time.process_time() - start < 6


# --- rules for some graded names ---

LIMITED = ByHandRule([SDPA], ["by_hand"])


@pytest.mark.parametrize(
    "source",
    [
        "import torch.nn.functional as F\ndef by_hand(q): return F.scaled_dot_product_attention(q, q, q)",
        "from torch.nn.functional import scaled_dot_product_attention as s\ndef by_hand(q): return s(q, q, q)",
        "from torch.nn.functional import scaled_dot_product_attention as by_hand",
        "import torch\nby_hand = torch.nn.functional.scaled_dot_product_attention",
        "import torch.nn.functional as F\ndef helper(q): return F.scaled_dot_product_attention(q, q, q)\n"
        "def by_hand(q): return helper(q)",
        "import torch.nn.functional as F\nfast = F.scaled_dot_product_attention\nTABLE = {1: fast}\n"
        "def other(q): return TABLE[1](q)\ndef by_hand(q): return other(q)",
        "import torch.nn.functional as F\nif True:\n    def by_hand(q): return F.scaled_dot_product_attention(q, q, q)",
        "import torch.nn.functional as F\nclass by_hand:\n    def f(self, q): return F.scaled_dot_product_attention(q, q, q)",
        "import torch.nn.functional as F\ndef by_hand(q): return q\nby_hand.call = F.scaled_dot_product_attention",
        "import importlib\ndef by_hand(q): return importlib.import_module('torch')",
        "from torch.nn.functional import *\ndef by_hand(q): return q",
    ],
)
def test_a_rule_for_one_name_covers_what_that_name_is_made_of(source):
    assert found(source, LIMITED)


@pytest.mark.parametrize(
    "source",
    [
        "import torch.nn.functional as F\ndef by_hand(q): return q\n"
        "def attention(q): return F.scaled_dot_product_attention(q, q, q)",
        "from torch.nn.functional import scaled_dot_product_attention, softmax\ndef by_hand(q): return softmax(q, -1)\n"
        "def attention(q): return scaled_dot_product_attention(q, q, q)",
        "import importlib\ndef by_hand(q): return q",
        "def attention(q): return exec(q)",
    ],
)
def test_a_rule_for_one_name_leaves_the_others_alone(source):
    assert found(source, LIMITED) == []
    assert found(source, ByHandRule([SDPA]))


def test_a_rule_forbids_no_more_than_it_says():
    source = "import torch.nn.functional as F\ndef f(q): return F.scaled_dot_product_attention(q, q, q)"
    assert found(source, ByHandRule([MHA])) == []


# --- whole libraries ---

LIBRARIES = ByHandRule(["tokenizers", "sentencepiece"])


@pytest.mark.parametrize(
    "source",
    [
        "import tokenizers",
        "import os, tokenizers as t",
        "import tokenizers.models",
        "from tokenizers import Tokenizer",
        "from tokenizers.models import BPE as B",
        "from tokenizers import *",
        "def f():\n    import tokenizers",
        "try:\n    import tokenizers\nexcept ImportError:\n    tokenizers = None",
        "if False:\n    from tokenizers import Tokenizer",
    ],
)
def test_any_import_of_a_forbidden_library_is_found(source):
    (finding,) = found(source, LIBRARIES)
    assert finding.sentence == "imports `tokenizers`, which does what this exercise asks you to write by hand"


@pytest.mark.parametrize(
    "source",
    [
        "import importlib\nt = importlib.import_module('tokenizers')",
        "t = __import__('tokenizers')",
        "exec('import tokenizers')",
        "import sys\nt = sys.modules['tokenizers']",
    ],
)
def test_what_would_hide_an_import_is_found(source):
    findings = found(source, LIBRARIES)
    assert findings and all("write the call plainly" in finding.sentence for finding in findings)


@pytest.mark.parametrize(
    "source",
    [
        "import regex, re, collections, torch",
        "import tokenizers_of_my_own, my.tokenizers",
        "from . import tokenizers\nfrom .tokenizers import Tokenizer",
        "tokenizers = []\nclass A: tokenizers = 1\ndef sentencepiece(a): return a.tokenizers + [sentencepiece]",
        "x = 'tokenizers', getattr(x, 'sentencepiece')",
        "def f():\n    'import tokenizers'",
    ],
)
def test_the_name_of_a_library_alone_is_no_import(source):
    assert found(source, LIBRARIES) == []


def test_a_library_for_some_names_leaves_the_others_alone():
    rule = ByHandRule(["tokenizers"], ["by_hand"])
    source = "import tokenizers\ndef by_hand(): return {}\ndef other(): return {}"
    assert found(source.format("1", "tokenizers"), rule) == []
    assert found(source.format("tokenizers", "1"), rule)


def test_libraries_and_calls_go_into_one_rule():
    rule = ByHandRule(["tokenizers", MHA])
    one, two = found("import tokenizers\nfrom torch.nn import MultiheadAttention", rule)
    assert "imports `tokenizers`" in one.sentence and f"uses `{MHA}`" in two.sentence
    assert with_twins(["tokenizers", MHA])[:2] == ["tokenizers", MHA]


# --- twins ---


def test_twins_are_added_once_and_only_those_that_torch_has(monkeypatch):
    calls = with_twins([SDPA, MHA])
    assert calls[:2] == [SDPA, MHA] and len(calls) == len(set(calls))
    assert "torch.nn.TransformerEncoderLayer" in calls and SDPA not in with_twins([MHA])
    monkeypatch.setitem(TWINS, SDPA, ("torch.nn.functional.not_in_this_torch",))
    assert with_twins([SDPA]) == [SDPA]
    assert with_twins(["torch.nn.Unheard"]) == ["torch.nn.Unheard"]


# --- what the spy sees while the code runs ---

SEEN = {
    "the function": ("return F.scaled_dot_product_attention(q, q, q)", SDPA),
    "the function, computed": ("return getattr(F, 'scaled_dot_' + 'product_attention')(q, q, q)", SDPA),
    "the function behind it": ("return torch._C._nn.scaled_dot_product_attention(q, q, q)", SDPA),
    "the operator": ("return torch.ops.aten.scaled_dot_product_attention(q, q, q)", SDPA),
    "the operator's overload": ("return torch.ops.aten.scaled_dot_product_attention.default(q, q, q)", SDPA),
    "the kernel": ("return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)[0]", SDPA),
    "the written-out kernel": (
        "return torch._scaled_dot_product_attention_math(q, q, q)[0]",
        "_scaled_dot_product_attention_math",
    ),
    "the class": ("return torch.nn.MultiheadAttention(4, 2)(q[0], q[0], q[0])[0]", MHA),
    "a subclass": ("return Own(4, 2)(q[0], q[0], q[0])[0]", MHA),
    "a subclass with its own init": ("return Later(4, 2)(q[0], q[0], q[0])[0]", MHA),
    "a module made before": ("return MADE(q[0], q[0], q[0])[0]", "torch.nn.functional.multi_head_attention_forward"),
    "a module made before, for inference": ("return FAST(q[0], q[0], q[0])[0]", "multi_head_attention_forward"),
    "the fast path": (
        "return torch._native_multi_head_attention(q[0], q[0], q[0], 4, 2, *PARTS)[0]",
        "_native_multi_head_attention",
    ),
    "a layer": ("return torch.nn.TransformerEncoderLayer(4, 2, 8)(q[0])", MHA),
    "a layer made before": ("return LAYER(q[0])", "multi_head_attention_forward"),
    "an alias made before": ("return attend(q, q, q)", SDPA),
}
WATCHED = """
import torch
import torch.nn.functional as F
attend = F.scaled_dot_product_attention
class Own(torch.nn.MultiheadAttention): pass
class Later(torch.nn.MultiheadAttention):
    def __init__(self, a, b):
        self.before = 1
        super().__init__(a, b)
MADE = torch.nn.MultiheadAttention(4, 2)
FAST = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval().requires_grad_(False)
PARTS = FAST.in_proj_weight, FAST.in_proj_bias, FAST.out_proj.weight, FAST.out_proj.bias
LAYER = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval().requires_grad_(False)
"""


@pytest.fixture(scope="module")
def watched(course, sandbox):
    """The functions of `SEEN` in one jailed worker, under the rule of exercise 07."""
    from grader.sandbox.remote import Remote, Session

    exercise = course.exercise(7)
    names = [f"case_{index}" for index in range(len(SEEN))]
    source = WATCHED + "".join(f"def {name}(q):\n    {body}\n" for name, (body, _) in zip(names, SEEN.values(), strict=True))
    source += "def honest(q):\n    return (q @ q.mT).softmax(-1) @ q\n"
    full = package(exercise, {f"{exercise.file}.py": source.encode()})
    forbidden = full.forbidden["scaled_dot_product_attention"]
    assert set(TWINS[SDPA]) <= set(forbidden)
    worker = sandbox.worker(
        type(full)(main=full.main, files=full.files, forbidden={name: forbidden for name in [*names, "honest"]})
    )
    session = Session(lambda: worker)
    session.ask("import", "import", extra=[])  # what is made then is nobody's call
    yield Remote(session)
    worker.kill()


@pytest.mark.parametrize("index", range(len(SEEN)), ids=SEEN)
def test_the_spy_sees(watched, index):
    import torch

    from grader.sandbox.remote import ForbiddenCall

    expected = list(SEEN.values())[index][1]
    with pytest.raises(ForbiddenCall) as caught:
        getattr(watched, f"case_{index}")(torch.randn(1, 2, 3, 4))
    assert any(name.endswith(expected) for name in caught.value.names), caught.value.names


def test_the_spy_leaves_right_code_alone(watched):
    import torch

    q = torch.randn(1, 2, 3, 4)
    assert torch.allclose(watched.honest(q), (q @ q.mT).softmax(-1) @ q, atol=1e-6)


MAIN = """
import torch
from torch.nn.functional import scaled_dot_product_attention as torchs_own


def attention_weights(q, k):
    return q @ k


if __name__ == "__main__":
    print(torchs_own(1, 2, 3), torch.nn.functional.scaled_dot_product_attention)
"""


def test_a_comparison_with_torchs_own_under_the_main_guard_is_no_use():
    rule = ByHandRule(["torch.nn.functional.scaled_dot_product_attention"])
    assert scan(MAIN.encode(), rule) == []
    assert scan(MAIN.replace("return q @ k", "return torchs_own(q, k, k)").encode(), rule)
    assert scan(MAIN.replace('__name__ == "__main__"', "True").encode(), rule)
    assert scan(MAIN.split("if __name__")[0].encode(), rule)  # a graded name could be the import itself


# --- a part of torch: torch.optim ---

OPTIM = ByHandRule(["torch.optim", "torch.nn.utils.clip_grad_norm_"])
OPTIM_USES = {
    "the part itself": "from torch import optim",
    "under another name": "import torch.optim as steps",
    "a class of it": "from torch.optim import AdamW as W",
    "a class by its dotted name": "import torch\nM = torch.optim.AdamW",
    "a module within it": "from torch.optim.adamw import adamw",
    "its schedulers": "import torch\nS = torch.optim.lr_scheduler.CosineAnnealingLR",
    "its twin for several machines": "import torch.distributed.optim",
    "by a string": "import torch\nM = getattr(torch, 'optim')",
    "what computes below it": "import torch\ntorch._fused_adamw_([])",
    "an old name of a function": "from torch.nn.utils import clip_grad_norm",
}
OPTIM_ALLOWED = {
    "own names": "class AdamW: pass\ndef clip_grad_norm_(params, max_norm): pass\ndef train(optim): optim.step(); clip_grad_norm_([], 1.0)",
    "an attribute": "class Loop:\n    def __init__(self, optim): self.optim = optim\n    def go(self): self.optim.step()",
    "the norm alone": "from torch.nn.utils import get_total_norm",
    "operators on lists": "import torch\ntorch._foreach_mul_([], 2)",
}


@pytest.mark.parametrize("source", OPTIM_USES.values(), ids=OPTIM_USES)
def test_any_use_of_a_part_of_torch_is_found(source):
    (finding, *_) = found(source, OPTIM)
    assert "by hand" in finding.sentence


@pytest.mark.parametrize("source", OPTIM_ALLOWED.values(), ids=OPTIM_ALLOWED)
def test_names_that_only_look_like_it_are_let_through(source):
    assert found(source, OPTIM) == []


def test_the_spy_sees_objects_of_a_part_of_torch_and_functions_that_torch_does_not_announce():
    import torch

    from grader.sandbox.spy import ForbiddenCallSpy

    class Mine(torch.optim.SGD):
        pass

    p = torch.nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    for use, expected in (
        (lambda: torch.optim.AdamW([p]), {"torch.optim"}),
        (lambda: Mine([p], lr=0.1), {"torch.optim"}),
        (
            lambda: torch.nn.utils.clip_grad_norm_([p], 1.0),
            {"torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grads_with_norm_"},
        ),
        (lambda: torch.nn.utils.get_total_norm([p.grad]), set()),
        (lambda: p.grad.norm(), set()),
    ):
        spy = ForbiddenCallSpy(with_twins(OPTIM.calls))
        with spy:
            use()
        assert spy.used == expected
    assert "__init__" not in vars(Mine) and torch.optim.SGD.__init__.__qualname__ == "SGD.__init__"  # all as it was
