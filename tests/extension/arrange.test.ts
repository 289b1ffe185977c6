import assert from "node:assert/strict";
import { test } from "node:test";
import { arranged } from "../../extension/webview/arrange.ts";

interface Row {
  readonly name: string;
  readonly line: string;
  readonly ms: number | null;
}

const KEYS = [
  { id: "name", value: ({ name }: Row) => name },
  { id: "line", value: ({ line }: Row) => line },
  { id: "ms", value: ({ ms }: Row) => ms },
];

const ROWS: readonly Row[] = [
  { name: "where", line: "model.py:9", ms: 3 },
  { name: "addmm", line: "model.py:10", ms: 12 },
  { name: "copy_", line: "other.py:2", ms: null },
  { name: "add", line: "model.py:100", ms: 0.5 },
];

function names(id: string, desc: boolean, filter = ""): string[] {
  return arranged(ROWS, KEYS, { id, desc }, filter).map(({ name }) => name);
}

test("numbers are sorted as numbers, and rows without one come last either way", () => {
  assert.deepEqual(names("ms", true), ["addmm", "where", "add", "copy_"]);
  assert.deepEqual(names("ms", false), ["add", "where", "addmm", "copy_"]);
});

test("lines are sorted as people count", () => {
  assert.deepEqual(names("line", false), ["where", "addmm", "add", "copy_"]);
});

test("every word of the filter has to be in some column", () => {
  assert.deepEqual(names("name", false, "ADD"), ["add", "addmm"]);
  assert.deepEqual(names("name", false, "add py:100"), ["add"]);
  assert.deepEqual(names("name", false, "  "), ["add", "addmm", "copy_", "where"]);
  assert.deepEqual(names("name", false, "nothing"), []);
});
