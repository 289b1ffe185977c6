"""Small profiles written by hand, for tests that need no run."""

from __future__ import annotations

from forwardlens.model import (
    Environment,
    ExpressionCost,
    Forward,
    GradUse,
    OpCost,
    Profile,
    Quantiles,
    Shape,
    Span,
)
from forwardlens.source.text import SourceText


def operator(name: str, *shapes: Shape, calls: int = 1) -> OpCost:
    return OpCost(name, calls, 1.0, 1.0, 0.0, 0, shapes, 1, outermost=True)


def cost(
    source: SourceText, text: str, share: float, *ops: OpCost, calls: int = 1, function: str = "f"
) -> ExpressionCost:
    """The cost of the first place where `text` stands."""
    start = source.text.index(text)
    span = Span(source.path, *source.position(start), *source.position(start + len(text)))
    return ExpressionCost(span, function, calls, calls, share, share, share, 0.0, 0.0, 0, ops)


def profile(source: SourceText, *costs: ExpressionCost) -> Profile:
    """One forward with these costs, which starts in the function of the first one."""
    environment = Environment("3.11", "2.13", "linux", "cpu", "cpu", None, None, 1, grad_mode=True, training=True)
    forward = Forward(Quantiles(1.0, 1.0, 1.0, 9), None, None, None, "dispatch")
    grad = GradUse(
        grad_enabled=True, inference_mode=False, training=True, outputs_require_grad=False, backward_ran=False
    )
    outermost = tuple((cost.span.file, cost.function) for cost in costs[:1])
    texts = {source.path: source.text}
    return Profile("x.py:build", None, environment, forward, grad, 0.0, costs, texts, outermost=outermost)
