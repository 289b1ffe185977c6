import assert from "node:assert/strict";
import { once } from "node:events";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type Facts, objection, type Started, startFirst, startPython } from "../../extension/src/server.ts";

const GOOD: Facts = { version: [3, 12], missing: [], executable: "/usr/bin/python3.12" };
const ROOT = join(import.meta.dirname, "../..");
const PYTHON = process.platform === "win32" ? "python" : "python3";

async function* these(...pythons: string[]): AsyncGenerator<string> {
  yield* pythons;
}

/** Starts nothing; a Python that is not named does not exist. */
function says(facts: Readonly<Record<string, Facts>>, ended: string[] = []) {
  return async (python: string): Promise<Started> => {
    const found = facts[python];
    if (found === undefined) {
      throw new Error("spawn ENOENT");
    }
    const process = { kill: () => ended.push(python) };
    return { python, facts: found, process: process as unknown as Started["process"] };
  };
}

/** A program that does what a shell script says. */
async function script(context: TestContext, text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "forwardlens-"));
  context.after(() => rm(folder, { recursive: true }));
  const file = join(folder, "python");
  await writeFile(file, `#!/bin/sh\n${text}\n`);
  await chmod(file, 0o755);
  return file;
}

test("the first Python that can run the server is taken, and those that cannot are ended", async () => {
  const ended: string[] = [];
  const start = says({ old: { ...GOOD, version: [3, 9] }, new: GOOD, newer: GOOD }, ended);
  const { started, rejected } = await startFirst(these("absent", "old", "new", "newer"), start);
  assert.equal(started?.python, "new");
  assert.deepEqual(ended, ["old"]);
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
  const { started } = await startFirst(candidates(), says({ good: GOOD }));
  assert.equal(started?.python, "good");
});

test("no candidate is good", async () => {
  const { started, rejected } = await startFirst(these("absent"), says({}));
  assert.equal(started, undefined);
  assert.equal(rejected.length, 1);
});

test("objections", () => {
  assert.equal(objection(GOOD), undefined);
  assert.equal(objection({ ...GOOD, version: [3, 11] }), undefined);
  assert.equal(objection({ ...GOOD, version: [4, 0] }), undefined);
  assert.match(objection({ ...GOOD, version: [2, 7] }) ?? "", /Python 2\.7/);
  assert.match(
    objection({ ...GOOD, version: [3, 15], missing: ["libcst.native"] }) ?? "",
    /no libcst for Python 3\.15/,
  );
  assert.equal(objection({ ...GOOD, missing: ["pygls", "libcst"] }), "it lacks pygls, libcst");
});

test("a Python says what it is before anything else, and names the program behind a stand-in", async () => {
  const started = await startPython(PYTHON, ROOT, () => undefined);
  started.process.kill();
  const [major, minor] = started.facts.version;
  assert.ok(major > 3 || (major === 3 && minor >= 8), `${major}.${minor}`);
  assert.notEqual(started.facts.executable, PYTHON);
  assert.equal(started.python, PYTHON);
});

test("one that is not there", async () => {
  await assert.rejects(
    startPython(join(ROOT, "no", "python"), ROOT, () => undefined),
    /ENOENT/,
  );
});

const posix = { skip: process.platform === "win32" ? "shell scripts" : false };

test("what it writes before and after its facts", posix, async (context) => {
  const facts = JSON.stringify(GOOD);
  const python = await script(context, `echo warned >&2; echo '[1]' >&2; echo '${facts}' >&2; echo later >&2`);
  const lines: string[] = [];
  const started = await startPython(python, ROOT, (line) => lines.push(line));
  await once(started.process, "close");
  assert.deepEqual(started.facts, GOOD);
  assert.deepEqual(lines, ["later"]);
});

test("the reason of one that fails is its own: the first line, of a traceback the last", posix, async (context) => {
  const stub = await script(context, "echo 'pyenv: python3.13: command not found' >&2; echo try another >&2; exit 127");
  await assert.rejects(
    startPython(stub, ROOT, () => undefined),
    /^Error: pyenv: python3\.13: command not found$/,
  );
  const broken = await script(context, "echo 'Traceback (most recent call last):' >&2; echo 'OSError: no' >&2; exit 1");
  await assert.rejects(
    startPython(broken, ROOT, () => undefined),
    /^Error: OSError: no$/,
  );
  const silent = await script(context, "exit 3");
  await assert.rejects(
    startPython(silent, ROOT, () => undefined),
    /it ended with 3 and said nothing/,
  );
});
