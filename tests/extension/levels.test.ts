import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { byLevel, LEVELS, type LineHeat, NOTHING, nextLine } from "../../extension/src/levels.ts";

function line(number: number, level: number, character = 0): LineHeat {
  const at = { line: number, character };
  return { range: { start: at, end: { line: number, character: character + 1 } }, share: level / 10, level };
}

function lineNumbers(lines: readonly LineHeat[]) {
  const groups = byLevel(lines);
  return LEVELS.map((level) => groups[level].map((range) => range.start.line));
}

test("lines are grouped by level", () => {
  assert.deepEqual(lineNumbers([line(1, 4), line(2, 1), line(3, 4), line(4, 2)]), [[2], [4], [], [1, 3]]);
});

test("the hottest expression decides for its line", () => {
  assert.deepEqual(lineNumbers([line(7, 2, 4), line(7, 3, 20), line(7, 1, 30)]), [[], [], [7], []]);
});

test("a level from a newer server is drawn as the nearest known one", () => {
  assert.deepEqual(lineNumbers([line(1, 9), line(2, 0), line(3, Number.NaN)]), [[2, 3], [], [], [1]]);
});

test("no lines", () => {
  assert.deepEqual(byLevel([]), NOTHING);
});

test("costly lines follow each other in both directions, around the ends", () => {
  const groups = byLevel([line(3, 4), line(9, 1), line(20, 2)]);
  assert.deepEqual(
    [0, 3, 12, 20, 99].map((current) => nextLine(groups, current, 1)),
    [3, 9, 20, 3, 3],
  );
  assert.deepEqual(
    [0, 3, 12, 20, 99].map((current) => nextLine(groups, current, -1)),
    [20, 20, 9, 9, 20],
  );
  assert.equal(nextLine(NOTHING, 5, 1), undefined);
});

test("every level has its two colours in the manifest, for all four kinds of theme", async () => {
  const manifest = JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8"));
  const colors: { id: string; defaults: object }[] = manifest.contributes.colors;
  const wanted = LEVELS.flatMap((level) =>
    ["Background", "Foreground"].map((kind) => `forwardlens.heat${level}${kind}`),
  );
  assert.deepEqual(colors.map(({ id }) => id).sort(), wanted.sort());
  for (const { id, defaults } of colors) {
    assert.deepEqual(Object.keys(defaults).sort(), ["dark", "highContrast", "highContrastLight", "light"], id);
  }
});
