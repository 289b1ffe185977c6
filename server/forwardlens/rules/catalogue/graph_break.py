"""A line at which `torch.compile` has to leave its graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from forwardlens.model import GraphBreak, Graphs, Severity, Span
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.source.tree import Tree, walk

_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class _Cause:
    """What Dynamo says (any of `words`, over its versions), which calls do it, and what a reader should know."""

    words: tuple[str, ...]
    calls: frozenset[str]
    because: str
    advice: str


_BRANCH = _Cause(
    ("Data-dependent branching", "Dynamic control flow is not supported", "generic_jump TensorVariable"),
    frozenset(),
    "what runs next depends on a tensor's value, which no graph knows",
    "`torch.where` computes both sides without a branch, `torch.cond` keeps it in the graph",
)
_CAUSES = (
    _BRANCH,
    _Cause(
        ("Tensor.item", "_local_scalar_dense", "Tensor.tolist", "capture_scalar_outputs"),
        frozenset({"item", "tolist", "float", "int", "bool"}),
        "a tensor's value leaves for Python",
        "keep it a tensor, or allow it with `torch._dynamo.config.capture_scalar_outputs = True`",
    ),
    _Cause(
        ("builtin: print", "builtin operator `print`"),
        frozenset({"print"}),
        "printing is no tensor work",
        "print outside the forward, or behind `if not torch.compiler.is_compiling()`",
    ),
    _Cause(
        ("logging.Logger", "Logger not supported", "logging"),
        frozenset({"debug", "info", "warning", "error", "critical", "exception", "log", "warn"}),
        "logging is no tensor work",
        "log outside the forward, or behind `if not torch.compiler.is_compiling()`",
    ),
    _Cause(
        ("aten.nonzero", "ynamic shape operator", "capture_dynamic_output_shape_ops", "aten.masked_select"),
        frozenset({"nonzero", "masked_select", "unique", "argwhere"}),
        "the shape of its result depends on values",
        "`torch.where` with the mask keeps the shape, "
        "`torch._dynamo.config.capture_dynamic_output_shape_ops = True` allows it",
    ),
)
# Who writes these wants the break.
_ON_PURPOSE = ("graph_break()", "_dynamo.disable", "compiler.disable", "dynamo.disable")


class GraphBreaks(Rule):
    """## What it does
    Names the lines at which `torch.compile` ends a graph, with the reason: a `print`, an `.item()`, an `if` on a
    tensor. Dynamo itself is asked. Where the program compiles its model, or a module in it, what it compiled is told;
    `--graph-breaks` (`graph_breaks = true` for an entry, `forwardlens.graphBreaks` in the editor) traces the whole
    forward for it once, and needs no C++ compiler.

    ## Why it costs
    Between two graphs Python runs: nothing is fused over the break, values go through memory, and a CUDA graph ends.
    A break inside a `for` or `while` is worse, because Dynamo then compiles nothing of the function, without an error
    or a warning.

    ## When to ignore it
    When nothing is compiled, or the break stands before or after the work that counts. A break on purpose, by
    `torch._dynamo.graph_break()` or `torch.compiler.disable`, is not reported.

    ## Fix safety
    A fix is offered only where the fix of another rule takes the line away, such as `host-sync` for a number that only
    takes part in arithmetic. Branches change what runs when a value is NaN, and prints are there for a reader.
    """

    name: ClassVar[str] = "graph-break"
    summary: ClassVar[str] = "A line that no graph of torch.compile can hold"
    # Dynamo's word is the evidence; what a break costs is spread over the graphs around it.
    threshold_factor: ClassVar[float] = 0.0
    # A value that Python reads breaks the graph; where the fix of one of these takes the read away, the graph is whole.
    covers: ClassVar[Mapping[str, Literal["expression", "loop"]]] = {
        "host-sync": "expression",
        "scalar-access-in-loop": "expression",
        "masking-in-loop": "expression",
        "boolean-mask-copy": "expression",
        "elementwise-loop": "expression",
    }
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "branch-on-a-value",
            """\
import torch
from torch import nn


class Guarded(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)

    def forward(self, x):
        x = self.lin(x)
        if x.abs().max() > 2.0:  #!
            x = x.clamp(-2.0, 2.0)
        return x * 0.5


def build():
    return torch.compile(Guarded(), backend="eager"), (torch.randn(16, 32),)
""",
        ),
        Example(
            "print-in-a-loop",
            """\
import torch
from torch import nn


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)

    def forward(self, x):
        for step in range(3):
            x = self.lin(x).tanh()
            print("step", step)  #!
        return x


def build():
    return torch.compile(Steps(), backend="eager"), (torch.randn(16, 32),)
""",
        ),
        Example(
            "one-graph",
            """\
import torch
from torch import nn


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)

    def forward(self, x):
        x = self.lin(x)
        return torch.where(x.abs() > 2.0, x.clamp(-2.0, 2.0), x)


def build():
    return torch.compile(Plain(), backend="eager"), (torch.randn(16, 32),)
""",
        ),
        Example(
            "break-on-purpose",
            """\
import torch
from torch import nn


class Parts(nn.Module):
    def forward(self, x):
        x = x.sin()
        torch._dynamo.graph_break()
        return x.cos()


def build():
    return torch.compile(Parts(), backend="eager"), (torch.randn(16, 32),)
""",
        ),
        Example(
            "nothing-is-compiled",
            """\
import torch
from torch import nn


class Guarded(nn.Module):
    def forward(self, x):
        if x.abs().max() > 2.0:
            x = x.clamp(-2.0, 2.0)
        return x * 0.5


def build():
    return Guarded(), (torch.randn(16, 32),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        graphs, sites = context.profile.graphs, sites_of(context)
        if graphs is None or sites is None:
            return
        for graph_break in graphs.breaks:
            wanted = any(words in graph_break.reason for words in _ON_PURPOSE)
            if graph_break.span.file == context.source.path and not wanted:
                yield _match(sites, graphs, graph_break)


def _match(sites: Sites, graphs: Graphs, graph_break: GraphBreak) -> Match:
    cause = next((c for c in _CAUSES if any(words in graph_break.reason for words in c.words)), None)
    node = _node(sites.tree, graph_break.span, cause)
    because = cause.because if cause is not None else f"as Dynamo says, {_in_its_words(graph_break.reason)}"
    advice = f": {cause.advice}" if cause is not None else ""
    evidence = {"graphs": graphs.count, "breaks": len(graphs.breaks), "frame_skipped": graph_break.frame_skipped}
    span = graph_break.span if node is None or hasattr(node, "body") else sites.source.span(node)
    if not graph_break.frame_skipped:
        parts = "graph" if graphs.count == 1 else "graphs"
        message = f"`torch.compile` ends a graph here, because {because}; {graphs.count} {parts} in all{advice}"
        return Match(span, message, _paid(sites, node), evidence, severity="info")
    lost = _function_share(sites, node)
    looped = ", and a break in a loop loses" if node is not None and any(sites.tree.loops(node)) else ", which loses"
    whole = "no graph is left of the forward" if graphs.count == 0 else f"{percent(lost)} of the forward"
    message = (
        f"`torch.compile` compiles nothing of `{graph_break.function}`, because {because}{looped} the whole function "
        f"({whole}){advice}"
    )
    severity: Severity | None = "warning" if graphs.count == 0 else None
    return Match(span, message, lost, evidence, severity=severity)


def _in_its_words(reason: str) -> str:
    """The sentence that explains, or the first line; torch 2.7 began to explain."""
    explained = re.search(r"Explanation: (.+)", reason)
    words = explained.group(1) if explained else reason.strip().partition("\n")[0]
    return words[:_LONGEST_REASON].rstrip(" .") or "for no reason given"


def _node(tree: Tree, span: Span, cause: _Cause | None) -> ast.expr | ast.stmt | None:
    """What breaks the graph: the expression that Dynamo told, else what on its line fits the cause."""
    if span != tree.source.line_span(span.line) or cause is None:
        exact = tree.at(span)
        if exact:
            return next((node for node in exact if isinstance(node, ast.expr)), exact[0])
    on_line = [
        node
        for node in walk(tree.module)
        if isinstance(node, (ast.expr, ast.stmt)) and node.lineno <= span.line <= (node.end_lineno or node.lineno)
    ]
    tests = (n.test for n in on_line if isinstance(n, (ast.If, ast.While, ast.IfExp, ast.Assert)) and n.test in on_line)
    calls = (n for n in on_line if isinstance(n, ast.Call) and cause is not None and _called(n) in cause.calls)
    fitting = next(tests if cause is _BRANCH else calls, None)
    return fitting or next((n for n in on_line if isinstance(n, ast.stmt) and n.lineno == span.line), None)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _paid(sites: Sites, node: ast.AST | None) -> float:
    """What the line itself costs; where a compound statement breaks, its head is not what paid."""
    return sites.share(node) if isinstance(node, ast.expr) else 0.0


def _function_share(sites: Sites, node: ast.AST | None) -> float:
    function = node and sites.tree.function(node)
    return sites.share(function) if function else 0.0
