import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after, test } from "node:test";
import {
  describePython,
  expandPath,
  firstFound,
  type Origin,
  onPath,
  PYTHON_FACTS,
  pathWithin,
  type Source,
  venvPython,
  within,
} from "../../extension/src/interpreter.ts";

const folder = await mkdtemp(join(tmpdir(), "forwardlens-"));
after(() => rm(folder, { recursive: true }));

function source(origin: Origin, answer: string | undefined | Error): Source {
  return {
    origin,
    find: async () => {
      if (answer instanceof Error) {
        throw answer;
      }
      return answer;
    },
  };
}

const ignore = () => undefined;

test("the first source with an answer wins", async () => {
  const sources = [source("setting", undefined), source("workspace", "/ws/python"), source("PATH", "/bin/python")];
  assert.deepEqual(await firstFound(sources, 100, ignore), { path: "/ws/python", origin: "workspace" });
});

test("an empty answer is no answer", async () => {
  const sources = [source("setting", ""), source("PATH", "/bin/python")];
  assert.deepEqual(await firstFound(sources, 100, ignore), { path: "/bin/python", origin: "PATH" });
});

test("a source that fails is reported and passed over", async () => {
  const problems: string[] = [];
  const sources = [source("Python extension", new Error("broken")), source("PATH", "/bin/python")];
  const found = await firstFound(sources, 100, (origin, problem) => problems.push(`${origin}: ${problem}`));
  assert.equal(found?.path, "/bin/python");
  assert.deepEqual(problems, ["Python extension: Error: broken"]);
});

test("a source that never answers is passed over", async () => {
  const silent: Source = { origin: "Python extension", find: () => new Promise(ignore) };
  const problems: Origin[] = [];
  const found = await firstFound([silent, source("PATH", "/bin/python")], 5, (origin) => problems.push(origin));
  assert.equal(found?.path, "/bin/python");
  assert.deepEqual(problems, ["Python extension"]);
});

test("later sources are not asked once one has answered", async () => {
  const late: Source = { origin: "PATH", find: () => assert.fail("asked for nothing") };
  await firstFound([source("setting", "/set/python"), late], 100, ignore);
});

test("no source has an answer", async () => {
  assert.equal(await firstFound([source("setting", undefined)], 100, ignore), undefined);
});

test("an answer in time is passed on and leaves no timer behind", async () => {
  assert.equal(await within(60_000, Promise.resolve("soon")), "soon");
});

test("paths in settings", () => {
  const variable = `$${"{workspaceFolder}"}/.venv/bin/python`;
  assert.equal(expandPath(variable, "/ws", "/home/me"), "/ws/.venv/bin/python");
  assert.equal(expandPath("~/env/bin/python", undefined, "/home/me"), "/home/me/env/bin/python");
  assert.equal(expandPath("~", undefined, "/home/me"), "/home/me");
  assert.equal(expandPath("~other/python", undefined, "/home/me"), "~other/python");
  assert.equal(expandPath("  ", "/ws", "/home/me"), "");
});

test("a path is seen from its folder, and not from one whose name begins alike", () => {
  const from = (path: string) => pathWithin(join("/w", "proj"), path);
  assert.equal(from(join("/w", "proj", ".venv", "bin", "python")), join(".venv", "bin", "python"));
  assert.equal(from(join("/w", "proj", "..data", "python")), join("..data", "python"));
  assert.equal(from(join("/w", "proj2", ".venv", "bin", "python")), undefined);
  assert.equal(from(join("/w", "python")), undefined);
});

test("the Python of a virtual environment has another place on Windows", () => {
  assert.equal(venvPython("env", "linux"), join("env", "bin", "python"));
  assert.equal(venvPython("env", "win32"), join("env", "Scripts", "python.exe"));
});

test("programs on PATH come by name first, then by folder", async () => {
  const folders = ["one", "two"].map((name) => join(folder, name));
  for (const each of folders) {
    await mkdir(each);
    await writeFile(join(each, "python3"), "");
    await chmod(join(each, "python3"), 0o755);
  }
  await writeFile(join(folder, "two", "python3.11"), "");
  const path = ["", ...folders].join(delimiter);
  assert.deepEqual(await onPath(["python3.11", "python3", "python"], path, "linux"), [
    join(folder, "two", "python3.11"),
    join(folder, "one", "python3"),
    join(folder, "two", "python3"),
  ]);
});

test("on Windows programs end in .exe", async () => {
  const path = join(folder, "windows");
  await mkdir(path);
  await writeFile(join(path, "python.exe"), "");
  assert.deepEqual(await onPath(["python3", "python"], path, "win32"), [join(path, "python.exe")]);
});

test("a row says what a Python has", () => {
  assert.equal(describePython("3.11.7 1\n"), "Python 3.11.7, has torch");
  assert.equal(describePython("3.9.2 0\n"), "Python 3.9.2, no torch");
  assert.equal(describePython("hello"), "does not answer like a Python");
});

test("the question to a Python is one that every Python understands", async () => {
  const [python] = await onPath(["python3"]);
  assert.ok(python);
  assert.match(execFileSync(python, ["-c", PYTHON_FACTS], { encoding: "utf8" }), /^3\.\d+\.\d+ [01]\s*$/);
});
