import assert from "node:assert/strict";
import { test } from "node:test";
import { asRequest, chooseEntry, lensAt, PROFILE, requestOf } from "../../extension/src/entries.ts";

function lens(line: number, target: string) {
  const at = { line, character: 4 };
  return { range: { start: at, end: at }, command: { command: PROFILE, arguments: [{ uri: "file:///m.py", target }] } };
}

const LENSES = [lens(30, "Encoder"), lens(5, "Embeddings"), lens(18, "Attention")];

test("a cursor belongs to the last lens above it, whatever the order", () => {
  const targets = [5, 17, 18, 99].map((line) => requestOf(lensAt(LENSES, { line, character: 0 }))?.target);
  assert.deepEqual(targets, ["Embeddings", "Embeddings", "Attention", "Encoder"]);
});

test("a cursor above all lenses belongs to none", () => {
  assert.equal(lensAt(LENSES, { line: 4, character: 80 }), undefined);
});

test("another command's lens asks for nothing", () => {
  const other = { ...lens(1, "A"), command: { command: "editor.action.rename", arguments: [{ uri: "file:///m.py" }] } };
  assert.equal(requestOf(other), undefined);
  assert.equal(requestOf(undefined), undefined);
});

test("arguments of a command are checked", () => {
  assert.deepEqual(asRequest({ uri: "file:///m.py", target: "A", entry: "m.py:build", more: 1 }), {
    uri: "file:///m.py",
    target: "A",
    entry: "m.py:build",
  });
  assert.deepEqual(asRequest({ uri: "file:///m.py", target: null }), { uri: "file:///m.py" });
  for (const nonsense of [undefined, null, "file:///m.py", 3, {}, { uri: 3 }, []]) {
    assert.equal(asRequest(nonsense), undefined);
  }
});

const BUILD = { entry: "m.py:build", kind: "file" } as const;
const SMALL = { entry: "m.py:small", kind: "file" } as const;
const TRAIN = { entry: "train", kind: "configured" } as const;
const OTHER = { entry: "other.py:build", kind: "workspace" } as const;

test("the only entry point of the file is used, before those of the project", () => {
  assert.deepEqual(chooseEntry([BUILD], undefined), { kind: "use", entry: "m.py:build" });
  assert.deepEqual(chooseEntry([BUILD, TRAIN, OTHER], undefined), { kind: "use", entry: "m.py:build" });
});

test("the server decides where the project has one entry point, or none is known", () => {
  assert.deepEqual(chooseEntry([TRAIN, OTHER], undefined), { kind: "server" });
  assert.deepEqual(chooseEntry([], undefined), { kind: "server" });
});

test("the user is asked when several are equally likely", () => {
  assert.deepEqual(chooseEntry([BUILD, SMALL], undefined), { kind: "ask" });
  assert.deepEqual(chooseEntry([TRAIN, { ...TRAIN, entry: "serve" }], undefined), { kind: "ask" });
});

test("the only entry point of another file is used", () => {
  assert.deepEqual(chooseEntry([OTHER], undefined), { kind: "use", entry: "other.py:build" });
});

test("the user's last choice is used for as long as it exists", () => {
  assert.deepEqual(chooseEntry([BUILD, SMALL], "m.py:small"), { kind: "use", entry: "m.py:small" });
  assert.deepEqual(chooseEntry([BUILD, SMALL], "m.py:old"), { kind: "ask" });
});
