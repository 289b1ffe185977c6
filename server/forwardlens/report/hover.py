"""The breakdown of one line: which expressions and operators its time went to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forwardlens.model import OpCost
from forwardlens.report.labels import LineCost
from forwardlens.report.numbers import format_bytes, format_count, format_ms, format_shape, format_share
from forwardlens.source.text import SourceText

_MOST_ROWS = 8
_LONGEST_EXPRESSION = 48


@dataclass(frozen=True, slots=True)
class _Table:
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def without_empty_columns(self) -> _Table:
        keep = [k for k in range(len(self.header)) if any(row[k] for row in self.rows)]
        return _Table(
            tuple(self.header[k] for k in keep),
            tuple(tuple(row[k] for k in keep) for row in self.rows),
        )


def line_markdown(line: LineCost, source: SourceText, *, stale: bool = False) -> str:
    """The breakdown for a client that renders Markdown. `source` is the text that was measured."""
    head, *notes = _summary(line, stale=stale)
    return "\n\n".join([f"**{head}**", *notes, *(_markdown(table) for table in _tables(line, source))])


def line_text(line: LineCost, source: SourceText, *, stale: bool = False) -> str:
    """The same as plain text."""
    return "\n\n".join([*_summary(line, stale=stale), *(_text(table) for table in _tables(line, source))])


def _summary(line: LineCost, *, stale: bool) -> list[str]:
    here = f"{format_ms(line.self_ms)}, {format_share(line.share)} of this forward"
    behind = line.total_ms - line.self_ms
    lines = [here]
    if line.forward_ms and behind / line.forward_ms >= 0.001:
        share = format_share(behind / line.forward_ms)
        lines.append(f"The functions it calls: {format_ms(behind)}, {share}.")
    waits = sum(cost.blocked_ms for cost in line.costs)
    if waits > 0:
        lines.append(f"The host waits {format_ms(waits)} of it for the device.")
    if stale:
        lines.append("This line has changed since it was measured.")
    return lines


def _tables(line: LineCost, source: SourceText) -> list[_Table]:
    tables = [_expressions(line, source)] if len(line.costs) > 1 else []
    if any(cost.ops for cost in line.costs):
        tables.append(_operators(line))
    return tables


def _expressions(line: LineCost, source: SourceText) -> _Table:
    costs = sorted(line.costs, key=lambda cost: -cost.self_ms)
    rows = tuple(
        (
            _shortened(source.slice(cost.span)),
            format_ms(cost.self_ms),
            format_share(cost.share),
            format_count(cost.calls),
        )
        for cost in costs[:_MOST_ROWS]
    )
    return _Table(("Expression", "Time", "Share", "Calls"), rows)


def _operators(line: LineCost) -> _Table:
    by_name: defaultdict[str, list[OpCost]] = defaultdict(list)
    for cost in line.costs:
        for op in cost.ops:
            by_name[op.name].append(op)
    groups = sorted(by_name.items(), key=lambda item: -sum(op.self_ms for op in item[1]))
    rows = [_operator_row(name, ops) for name, ops in groups[:_MOST_ROWS]]
    rest = [op for _, ops in groups[_MOST_ROWS:] for op in ops]
    if rest:
        rows.append((f"{format_count(len(groups) - _MOST_ROWS)} more", *_operator_row("", rest)[1:4], "", ""))
    header = ("Operator", "Calls", "Time", "Device", "Memory", "Shapes")
    return _Table(header, tuple(rows)).without_empty_columns()


def _operator_row(name: str, ops: Sequence[OpCost]) -> tuple[str, str, str, str, str, str]:
    def total(value: Callable[[OpCost], float]) -> float:
        return sum(map(value, ops))

    device, memory = total(lambda op: op.device_ms), total(lambda op: op.alloc_bytes)
    return (
        name.removeprefix("aten::"),
        format_count(sum(op.calls for op in ops)),
        format_ms(total(lambda op: op.self_ms)),
        format_ms(device) if device > 0 else "",
        format_bytes(memory) if memory > 0 else "",
        _shapes(max(ops, key=lambda op: op.self_ms)),
    )


def _shapes(op: OpCost) -> str:
    shapes = " ".join(format_shape(shape) for shape in op.shapes if shape)
    more = op.shape_variants - 1
    return f"{shapes} and {format_count(more, 'other')}" if shapes and more > 0 else shapes


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_EXPRESSION else f"{line[: _LONGEST_EXPRESSION - 1]}…"


def _markdown(table: _Table) -> str:
    aligned = ("---", *("---:" for _ in table.header[1:]))
    rows = (table.header, aligned, *((_code(row[0]), *map(_escaped, row[1:])) for row in table.rows))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _code(text: str) -> str:
    """As code, whatever is in it: a bar would end the cell even inside backticks."""
    fence = "``" if "`" in text else "`"
    padding = " " if "`" in text else ""
    return f"{fence}{padding}{_escaped_bars(text)}{padding}{fence}"


def _escaped_bars(text: str) -> str:
    return text.replace("|", "\\|")


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "\\`*_[]<>|" else char for char in text)


def _text(table: _Table) -> str:
    rows = (table.header, *table.rows)
    widths = [max(len(row[k]) for row in rows) for k in range(len(table.header))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)
