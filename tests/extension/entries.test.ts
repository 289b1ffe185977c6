import assert from "node:assert/strict";
import { test } from "node:test";
import { asRequest, lensAt, likeliest, PROFILE, requestOf } from "../../extension/src/entries.ts";

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

test("how a program is started comes along, if it has the right types", () => {
  const start = { arguments: ["--fast"], environment: { SEED: "1" }, cwd: "/data", python: "/venv/bin/python" };
  assert.deepEqual(asRequest({ uri: "file:///m.py", ...start }), { uri: "file:///m.py", ...start });
  const wrong = { arguments: "--fast", environment: { SEED: 1 }, cwd: 3 };
  assert.deepEqual(asRequest({ uri: "file:///m.py", ...wrong }), { uri: "file:///m.py" });
});

const BUILD = { entry: "m.py:build", kind: "file" } as const;
const SMALL = { entry: "m.py:small", kind: "file" } as const;
const TRAIN = { entry: "train", kind: "configured" } as const;
const OTHER = { entry: "other.py:build", kind: "workspace" } as const;
const SCRIPT = { entry: "train.py", kind: "script" } as const;
const TEST = { entry: "test_m.py::test_m", kind: "test" } as const;
const SELF = { entry: "m.py", kind: "self" } as const;

test("the only entry point of the file is used, before everything else", () => {
  assert.deepEqual(likeliest([BUILD, SELF]), { kind: "use", entry: "m.py:build" });
  assert.deepEqual(likeliest([BUILD, TRAIN, OTHER, SCRIPT, TEST, SELF]), { kind: "use", entry: "m.py:build" });
});

test("the server decides where the project has one entry point", () => {
  assert.deepEqual(likeliest([TRAIN, OTHER, SELF]), { kind: "server" });
});

test("the user is asked when several are equally likely", () => {
  assert.deepEqual(likeliest([BUILD, SMALL, SELF]), { kind: "ask" });
  assert.deepEqual(likeliest([TRAIN, { ...TRAIN, entry: "serve" }]), { kind: "ask" });
});

test("the only function elsewhere that builds it is used", () => {
  assert.deepEqual(likeliest([OTHER, SCRIPT, SELF]), { kind: "use", entry: "other.py:build" });
});

test("a script or a test is run only after the user chose it", () => {
  for (const candidates of [[SCRIPT, SELF], [TEST, SELF], [SELF], []]) {
    assert.deepEqual(likeliest(candidates), { kind: "ask" });
  }
});
