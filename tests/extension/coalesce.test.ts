import assert from "node:assert/strict";
import { test } from "node:test";
import { coalesced } from "../../extension/src/coalesce.ts";

/** A task whose runs are finished by hand, in order. */
function manual() {
  const open: { resolve: () => void; reject: (problem: Error) => void }[] = [];
  let runs = 0;
  return {
    runs: () => runs,
    task: () => {
      runs += 1;
      return new Promise<void>((resolve, reject) => open.push({ resolve, reject }));
    },
    finish: () => open.shift()?.resolve(),
    fail: () => open.shift()?.reject(new Error("no")),
  };
}

test("calls during a run share one later run", async () => {
  const { task, runs, finish } = manual();
  const refresh = coalesced(task);
  const first = refresh();
  const others = [refresh(), refresh(), refresh()];
  assert.equal(runs(), 1);
  finish();
  await first;
  assert.equal(runs(), 2);
  finish();
  await Promise.all(others);
  assert.equal(runs(), 2);
});

test("a call during a run does not resolve with that run, which may have started too early", async () => {
  const { task, finish } = manual();
  const refresh = coalesced(task);
  const first = refresh();
  let done = false;
  const second = refresh().then(() => {
    done = true;
  });
  finish();
  await first;
  assert.equal(done, false);
  finish();
  await second;
});

test("a run that fails does not stop the one that waits", async () => {
  const { task, runs, fail, finish } = manual();
  const refresh = coalesced(task);
  const first = refresh();
  const second = refresh();
  fail();
  await assert.rejects(first);
  finish();
  await second;
  assert.equal(runs(), 2);
});

test("a call after a run is finished runs again", async () => {
  const { task, runs, finish } = manual();
  const refresh = coalesced(task);
  const first = refresh();
  finish();
  await first;
  const second = refresh();
  finish();
  await second;
  assert.equal(runs(), 2);
});
