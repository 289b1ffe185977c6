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
    "OpCost",
    "Outcome",
    "Profile",
    "Quantiles",
    "Related",
    "RunError",
    "Severity",
    "Shape",
    "Span",
    "Verification",
]
