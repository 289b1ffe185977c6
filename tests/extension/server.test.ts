import assert from "node:assert/strict";
import { test } from "node:test";
import { objection, type Probe, resolveLaunch } from "../../extension/src/server.ts";

const GOOD: Probe = { version: [3, 12], missing: [] };
const ROOT = "/extension";

async function* these(...pythons: string[]): AsyncGenerator<string> {
  yield* pythons;
}

function answers(probes: Readonly<Record<string, Probe>>) {
  return async (python: string) => probes[python] ?? Promise.reject(new Error("spawn ENOENT"));
}

test("the first Python that can run the server is taken, in isolated mode", async () => {
  const probe = answers({ old: { version: [3, 9], missing: [] }, new: GOOD });
  const { launch, rejected } = await resolveLaunch(these("absent", "old", "new", "newer"), ROOT, probe);
  assert.equal(launch?.command, "new");
  assert.equal(launch.args[0], "-I");
  assert.ok(launch.args.includes("serve"));
  assert.ok(launch.cwd.startsWith(ROOT));
  assert.deepEqual(rejected, [
    { python: "absent", reason: "it did not run: spawn ENOENT" },
    { python: "old", reason: "it is Python 3.9, 3.11 is the oldest that works" },
  ]);
});

test("candidates after the first good one are not even searched for", async () => {
  async function* candidates(): AsyncGenerator<string> {
    yield "good";
    assert.fail("searched on");
  }
  const { launch } = await resolveLaunch(candidates(), ROOT, answers({ good: GOOD }));
  assert.equal(launch?.command, "good");
});

test("the same candidates give an equal launch, so that nothing is restarted for nothing", async () => {
  const launches = await Promise.all([1, 2].map(() => resolveLaunch(these("good"), ROOT, answers({ good: GOOD }))));
  assert.deepEqual(launches[0], launches[1]);
});

test("no candidate is good", async () => {
  const { launch, rejected } = await resolveLaunch(these("absent"), ROOT, answers({}));
  assert.equal(launch, undefined);
  assert.equal(rejected.length, 1);
});

test("objections", () => {
  assert.equal(objection(GOOD), undefined);
  assert.equal(objection({ version: [3, 11], missing: [] }), undefined);
  assert.equal(objection({ version: [4, 0], missing: [] }), undefined);
  assert.match(objection({ version: [2, 7], missing: [] }) ?? "", /Python 2\.7/);
  assert.match(objection({ version: [3, 15], missing: ["libcst.native"] }) ?? "", /no libcst for Python 3\.15/);
  assert.equal(objection({ version: [3, 12], missing: ["pygls", "libcst"] }), "it lacks pygls, libcst");
});
