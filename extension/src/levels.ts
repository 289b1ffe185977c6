/** From line costs to the few groups of ranges that are drawn. */

import type { Range } from "vscode-languageserver-protocol";

export const LEVELS = [1, 2, 3, 4] as const;
export type Level = (typeof LEVELS)[number];

/** A costly line as the server tells it: `share` of the forward, and how much that is. */
export interface LineHeat {
  readonly range: Range;
  readonly share: number;
  readonly level: number;
}

export type Groups = Readonly<Record<Level, readonly Range[]>>;

export const NOTHING: Groups = { 1: [], 2: [], 3: [], 4: [] };

/** The hottest expression decides for a line that several expressions share. */
export function byLevel(lines: readonly LineHeat[]): Groups {
  const hottest = new Map<number, { range: Range; level: Level }>();
  for (const { range, level } of lines) {
    const known = hottest.get(range.start.line);
    const clamped = clamp(level);
    if (known === undefined || clamped > known.level) {
      hottest.set(range.start.line, { range, level: clamped });
    }
  }
  const all = [...hottest.values()];
  const at = (level: Level) => all.filter((line) => line.level === level).map((line) => line.range);
  return { 1: at(1), 2: at(2), 3: at(3), 4: at(4) };
}

/** The nearest costly line after `current`, or before it with -1, going around; undefined without any. */
export function nextLine(groups: Groups, current: number, step: 1 | -1): number | undefined {
  const lines = LEVELS.flatMap((level) => groups[level].map((range) => range.start.line)).sort(
    (a, b) => step * (a - b),
  );
  return lines.find((line) => step * (line - current) > 0) ?? lines[0];
}

function clamp(level: number): Level {
  const bounded = Math.min(Math.max(Math.round(level), 1), LEVELS.length);
  return LEVELS.find((known) => known === bounded) ?? 1;
}
