"""The JSON schema of `[tool.forwardlens]`, for editors that complete and check pyproject.toml.

Made of the records in `config.py`. `python -m forwardlens.config_schema` writes it.
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from forwardlens.config import LIMITS, TABLE, Settings

FILE = Path(__file__).parent / "pyproject.schema.json"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}

Schema = dict[str, object]


def schema() -> Schema:
    """The schema of a whole pyproject.toml that is silent about all tables but ours."""
    from forwardlens.rules.engine import rule_names

    inner = _record(Settings)
    settings = typing.cast("dict[str, Schema]", inner["properties"])
    settings["rules"]["propertyNames"] = {"enum": sorted(rule_names())}
    for table in reversed(TABLE):
        inner = {"type": "object", "properties": {table: inner}}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "ForwardLens in pyproject.toml", **inner}


def text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _record(record: type[Any]) -> Schema:
    hints = typing.get_type_hints(record, include_extras=True)
    required = [item.name for item in fields(record) if item.default is MISSING and item.default_factory is MISSING]
    properties = {item.name: _field(item.name, hints[item.name], item.default) for item in fields(record)}
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _field(name: str, hint: Any, default: object) -> Schema:
    described: Schema = {}
    if typing.get_origin(hint) is Annotated:
        hint, description = typing.get_args(hint)
        described["description"] = description
    if isinstance(default, bool | float | str):
        described["default"] = default
    return {**_type(hint), **dict(_limits(name)), **described}


def _type(hint: Any) -> Schema:
    if isinstance(hint, types.UnionType):
        return _type(typing.get_args(hint)[0])
    if typing.get_origin(hint) is Mapping:
        return {"type": "object", "additionalProperties": _type(typing.get_args(hint)[1])}
    if typing.get_origin(hint) is Literal:
        return {"enum": list(typing.get_args(hint))}
    if typing.get_origin(hint) is tuple:
        return {"type": "array", "items": _type(typing.get_args(hint)[0])}
    return {"type": _PLAIN[hint]} if hint in _PLAIN else _record(hint)


def _limits(name: str) -> Iterator[tuple[str, float]]:
    low, high = LIMITS.get(name, (-math.inf, math.inf))
    if low != -math.inf:
        yield "minimum", low
    if high != math.inf:
        yield "maximum", high


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8", newline="\n")
