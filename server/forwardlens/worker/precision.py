# pyright: basic
"""Products of float32 numbers with all their digits, while results are compared."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def whole_float32() -> Iterator[None]:
    """TF32, which convolutions use unless told otherwise, keeps 11 bits of each factor. Two values a rounding apart
    then come out a thousandth apart, and nothing could be said about an edit behind them.
    """
    before = [getattr(place, name) for place, name, _ in _switches()]
    for place, name, off in _switches():
        setattr(place, name, off)
    try:
        yield
    finally:
        for (place, name, _), value in zip(_switches(), before, strict=True):
            setattr(place, name, value)


def _switches() -> list[tuple[object, str, object]]:
    """Where to set what. Reading the older names raises from torch 2.9 on where a program has used the newer ones."""
    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    if hasattr(cudnn, "conv"):
        return [(place, "fp32_precision", "ieee") for place in (cudnn.conv, cudnn.rnn, products)]
    return [(place, "allow_tf32", False) for place in (cudnn, products)]
