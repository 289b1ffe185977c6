"""Reading what clients send as arguments of our commands and messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pygls.exceptions import JsonRpcInvalidParams


def text_argument(arguments: Sequence[object], name: str) -> str | None:
    """The string `name` of the object that is the first argument; None if it is absent or null.

    Raises `JsonRpcInvalidParams` for anything that is no string.
    """
    first = arguments[0] if arguments else None
    # pygls hands over the parameters of messages it does not know as named tuples.
    fields = cast("Any", first)._asdict() if hasattr(first, "_asdict") else first
    if fields is None:
        return None
    if not isinstance(fields, Mapping):
        raise JsonRpcInvalidParams(f"expected an object with '{name}', not {fields!r}")
    value = cast("Mapping[str, object]", fields).get(name)
    if value is None or isinstance(value, str):
        return value
    raise JsonRpcInvalidParams(f"'{name}' must be a string, not {value!r}")


def required_text(arguments: Sequence[object], name: str) -> str:
    value = text_argument(arguments, name)
    if value is None:
        raise JsonRpcInvalidParams(f"the argument '{name}' is missing")
    return value
