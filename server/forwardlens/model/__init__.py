"""The records that pass between the parts. Nothing here imports the rest of the package."""

from forwardlens.model.finding import (
    Applicability,
    Edit,
    Evidence,
    Finding,
    Fix,
    Outcome,
    Related,
    Severity,
    Verification,
)
from forwardlens.model.location import Span
from forwardlens.model.profile import (
    Bound,
    Environment,
    ExpressionCost,
    Forward,
    GradUse,
    OpCost,
    Profile,
    Quantiles,
    RunError,
    Shape,
)
from forwardlens.model.timeline import Held, Lane, MemoryPoint, MemoryUse, Timeline, TimelineEvent

__all__ = [
    "Applicability",
    "Bound",
    "Edit",
    "Environment",
    "Evidence",
    "ExpressionCost",
    "Finding",
    "Fix",
    "Forward",
    "GradUse",
    "Held",
    "Lane",
    "MemoryPoint",
    "MemoryUse",
    "OpCost",
    "Outcome",
    "Profile",
    "Quantiles",
    "Related",
    "RunError",
    "Severity",
    "Shape",
    "Span",
    "Timeline",
    "TimelineEvent",
    "Verification",
]
