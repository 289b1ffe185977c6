"""Reading what clients send as arguments of our commands and messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pygls.exceptions import JsonRpcInvalidParams


def text_argument(arguments: Sequence[object], name: str) -> str | None:
    """The string `name` of the object that is the first argument; None if it is absent or null.

    Raises `JsonRpcInvalidParams` for anything that is no string.
    """
    value = _argument(arguments, name)
    if value is None or isinstance(value, str):
        return value
    raise JsonRpcInvalidParams(f"'{name}' must be a string, not {value!r}")


def texts_argument(arguments: Sequence[object], name: str) -> tuple[str, ...] | None:
    """The same for a list of strings."""
    value = _argument(arguments, name)
    if value is None:
        return None
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    if isinstance(value, list) and all(isinstance(item, str) for item in items):
        return tuple(cast("list[str]", value))
    raise JsonRpcInvalidParams(f"'{name}' must be a list of strings, not {value!r}")


def table_argument(arguments: Sequence[object], name: str) -> Mapping[str, str] | None:
    """The same for an object whose values are strings."""
    value = _plain(_argument(arguments, name))
    if value is None:
        return None
    if isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        if all(isinstance(item, str) for item in table.values()):
            return dict(cast("Mapping[str, str]", table))
    raise JsonRpcInvalidParams(f"'{name}' must be an object of strings, not {value!r}")


def _argument(arguments: Sequence[object], name: str) -> object:
    fields = _plain(arguments[0] if arguments else None)
    if fields is None:
        return None
    if not isinstance(fields, Mapping):
        raise JsonRpcInvalidParams(f"expected an object with '{name}', not {fields!r}")
    return cast("Mapping[str, object]", fields).get(name)


def _plain(value: object) -> object:
    """As a plain object: pygls hands over the parameters of messages it does not know as named tuples."""
    return cast("Any", value)._asdict() if hasattr(value, "_asdict") else value


def required_text(arguments: Sequence[object], name: str) -> str:
    value = text_argument(arguments, name)
    if value is None:
        raise JsonRpcInvalidParams(f"the argument '{name}' is missing")
    return value


def number_argument(arguments: Sequence[object], name: str) -> int:
    """The whole number `name`, at least 0. Raises `JsonRpcInvalidParams` for anything else."""
    value = _argument(arguments, name)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise JsonRpcInvalidParams(f"'{name}' must be a whole number, not {value!r}")
