/** The report's operators as rows of a table. */

import type { Operator, ReportLine, Span } from "../src/reportData.ts";

export interface OperatorRow extends Operator {
  /** The expression that ran it, or the costliest of those. */
  readonly span: Span;
}

export function operatorRows(lines: readonly ReportLine[]): OperatorRow[] {
  return lines.flatMap((line) => line.ops.map((op) => ({ ...op, span: line })));
}

/** One row for each operator; the place and the shapes are those of its costliest one. */
export function operatorTotals(lines: readonly ReportLine[]): OperatorRow[] {
  const totals = new Map<string, OperatorRow>();
  const costliest = operatorRows(lines).sort((one, other) => other.self_ms - one.self_ms);
  for (const row of costliest) {
    const known = totals.get(row.name);
    totals.set(row.name, known === undefined ? row : added(known, row));
  }
  return [...totals.values()];
}

function added(one: OperatorRow, other: OperatorRow): OperatorRow {
  return {
    ...one,
    calls: one.calls + other.calls,
    self_ms: one.self_ms + other.self_ms,
    total_ms: one.total_ms + other.total_ms,
    device_ms: one.device_ms + other.device_ms,
  };
}

/** The name that torch's own documentation has; a kernel's without its template arguments and parameters. */
export function shortName(name: string): string {
  return name
    .replace(/^aten::/, "")
    .replace(/^void /, "")
    .replaceAll("(anonymous namespace)::", "")
    .replace(/(?<=\w)<.*$/, "")
    .replace(/(?<=^[\w:]+)\(.*\)$/, "");
}

/** `8×128, 128×512`; scalars are `()`. */
export function shapesText(shapes: readonly (readonly number[])[]): string {
  return shapes.map((sizes) => (sizes.length === 0 ? "()" : sizes.join("×"))).join(", ");
}
