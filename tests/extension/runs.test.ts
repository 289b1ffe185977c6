import assert from "node:assert/strict";
import { test } from "node:test";
import { Runs } from "../../extension/src/runs.ts";

const BEGIN = { kind: "begin", title: "Profiling", message: "starting" } as const;
const END = { kind: "end" } as const;

function step(message: string) {
  return { kind: "report", message } as const;
}

/** Runs whose every effect is written into `seen`. */
function recorded() {
  const seen: string[] = [];
  const runs = new Runs((running) => seen.push(running ? "running" : "idle"));
  const elsewhere = () => seen.push("elsewhere");
  /** A run that lasts until it is told to end. */
  function ask(name: string) {
    let end = () => {};
    const ended = new Promise<string>((resolve) => {
      end = () => resolve(name);
    });
    const answer = runs.during(
      (message) => seen.push(`${name}: ${message}`),
      () => ended,
    );
    return { answer, end };
  }
  return { seen, runs, elsewhere, ask };
}

test("a run that was asked for is told in its own place, and only there", async () => {
  const { seen, runs, elsewhere, ask } = recorded();
  const run = ask("a");
  runs.progress(1, BEGIN, elsewhere);
  runs.progress(1, step("timing"), elsewhere);
  runs.progress(1, END, elsewhere);
  run.end();
  assert.equal(await run.answer, "a");
  assert.deepEqual(seen, ["running", "a: starting", "a: timing", "idle"]);
});

test("a run after a save is busy too, and told elsewhere", () => {
  const { seen, runs, elsewhere } = recorded();
  runs.progress(1, BEGIN, elsewhere);
  runs.progress(1, END, elsewhere);
  assert.deepEqual(seen, ["running", "elsewhere", "elsewhere", "idle"]);
});

test("a run that replaces another gets the later progress", async () => {
  const { seen, runs, elsewhere, ask } = recorded();
  const [one, other] = [ask("a"), ask("b")];
  runs.progress(1, BEGIN, elsewhere);
  runs.progress(1, END, elsewhere);
  one.end();
  await one.answer;
  runs.progress(2, BEGIN, elsewhere);
  runs.progress(2, END, elsewhere);
  other.end();
  await other.answer;
  assert.deepEqual(seen, ["running", "a: starting", "b: starting", "idle"]);
});

test("a run that failed before it began leaves nothing behind", async () => {
  const { seen, runs, elsewhere } = recorded();
  const failing = runs.during(
    () => undefined,
    () => Promise.reject(new Error("no")),
  );
  await assert.rejects(failing, /no/);
  runs.progress(1, BEGIN, elsewhere);
  assert.deepEqual(seen, ["running", "idle", "running", "elsewhere"]);
});

test("runs of a server that is gone are over", () => {
  const { seen, runs, elsewhere } = recorded();
  runs.progress(1, BEGIN, elsewhere);
  runs.forget();
  assert.deepEqual(seen, ["running", "elsewhere", "idle"]);
});
