"""Messages are sentences, whoever wrote them."""

from __future__ import annotations

import pytest

from forwardlens.lsp.messages import sentence


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "cannot start the interpreter /x/python: No such file",
            "Cannot start the interpreter /x/python: No such file.",
        ),
        ("did you mean this?", "Did you mean this?"),
        ("model.py:3: ValueError: no", "model.py:3: ValueError: no."),
        ("build() of model.py raised", "build() of model.py raised."),
        ("Nothing to change.", "Nothing to change."),
    ],
)
def test_a_message_becomes_a_sentence(text: str, shown: str) -> None:
    assert sentence(text) == shown
