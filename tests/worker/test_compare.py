"""How exact two results must be to count as the same."""

from __future__ import annotations

import pytest
import torch

from forwardlens.worker.compare import Comparison, Difference
from forwardlens.worker.precision import whole_float32

pytestmark = pytest.mark.torch


def test_an_element_of_a_gradient_is_as_exact_as_the_largest_one() -> None:
    gradient, rounded = torch.tensor([3000.0, 0.0]), torch.tensor([3000.0, 0.01])
    Comparison().same_sum(gradient, rounded, "gradient")
    with pytest.raises(Difference, match=r"output: values differ by up to 0\.01"):
        Comparison().same(gradient, rounded, "output")
    with pytest.raises(Difference, match=r"gradient: values differ by up to 0\.1"):
        Comparison().same_sum(gradient, torch.tensor([3000.0, 0.1]), "gradient")


def test_a_gradient_that_is_not_finite_makes_nothing_else_inexact() -> None:
    gradient = torch.tensor([torch.inf, 1.0])
    Comparison().same_sum(gradient, gradient.clone(), "gradient")
    with pytest.raises(Difference):
        Comparison().same_sum(gradient, torch.tensor([torch.inf, 1.01]), "gradient")


def test_factors_keep_all_their_digits_while_results_are_compared() -> None:
    products, recurrent = torch.backends.cuda.matmul, torch.backends.cudnn.rnn
    torch.set_float32_matmul_precision("high")
    try:
        with whole_float32():
            assert products.fp32_precision == recurrent.fp32_precision == "ieee"
        assert products.fp32_precision == recurrent.fp32_precision == "tf32"
        assert torch.backends.cuda.matmul.allow_tf32  # raises where the older and the newer names disagree
    finally:
        torch.set_float32_matmul_precision("highest")
