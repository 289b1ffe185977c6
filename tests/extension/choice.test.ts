import assert from "node:assert/strict";
import { test } from "node:test";
import { type Choice, Choices, isThere } from "../../extension/src/choice.ts";

function memory() {
  const kept = new Map<string, unknown>();
  return {
    get: (key: string) => kept.get(key),
    update: async (key: string, value: unknown) => void kept.set(key, JSON.parse(JSON.stringify(value))),
  };
}

const BUILD: Choice = { kind: "entry", entry: "m.py:build" };
const TRAIN: Choice = { kind: "entry", entry: "train.py", arguments: ["--epochs", "1"] };
const always = () => true;

test("a choice is kept for its file, and likely for the others of its folder", async () => {
  const choices = new Choices(memory(), "file:///one");
  await choices.remember("m.py", BUILD);
  await choices.remember("n.py", TRAIN);
  assert.deepEqual(choices.find("m.py", always), BUILD);
  assert.deepEqual(choices.find("other.py", always), TRAIN);
});

test("folders have choices of their own", async () => {
  const shared = memory();
  await new Choices(shared, "file:///one").remember("m.py", BUILD);
  assert.equal(new Choices(shared, "file:///two").find("m.py", always), undefined);
});

test("a choice that cannot be made any more is passed over", async () => {
  const choices = new Choices(memory(), "file:///one");
  await choices.remember("n.py", BUILD);
  await choices.remember("m.py", TRAIN);
  assert.equal(
    choices.find("m.py", () => false),
    undefined,
  );
});

test("what was typed counts for its file only", async () => {
  const choices = new Choices(memory(), "file:///one");
  await choices.remember("m.py", { kind: "entry", entry: "-m pkg.train", typed: true });
  assert.equal(choices.find("n.py", always), undefined);
});

test("a forgotten choice is gone", async () => {
  const choices = new Choices(memory(), "file:///one");
  await choices.remember("m.py", BUILD);
  await choices.forget("m.py");
  assert.equal(choices.find("m.py", always), undefined);
});

test("a choice exists as long as its candidate or its launch configuration does", () => {
  const candidates = [{ entry: "m.py:build", kind: "file" }] as const;
  assert.ok(isThere(BUILD, candidates, []));
  assert.ok(!isThere(TRAIN, candidates, []));
  assert.ok(isThere({ kind: "entry", entry: "-m pkg", typed: true }, candidates, []));
  assert.ok(isThere({ kind: "launch", name: "Train" }, [], ["Train"]));
  assert.ok(!isThere({ kind: "launch", name: "Train" }, candidates, ["Test"]));
});
