import assert from "node:assert/strict";
import { sep } from "node:path";
import { test } from "node:test";
import { type LaunchConfiguration, pythonLaunches, resolveLaunch } from "../../extension/src/launch.ts";
import { expand, type Place } from "../../extension/src/variables.ts";

/** `${name}`, which would be filled in if it stood in a template. */
function variable(name: string): string {
  return `$${`{${name}}`}`;
}

const PLACE: Place = {
  workspaceFolder: "/ws",
  folders: { lib: "/lib" },
  file: "/ws/src/model.py",
  home: "/home/me",
  environment: { DATA: "/data" },
  setting: (name) => (name === "train.batch" ? 8 : undefined),
};

const FILES: Readonly<Record<string, string>> = {
  "/ws/.env": "# where things are\nexport ROOT=/root\nSEED=1 # fixed\nNAME='two words'\n",
};

async function read(path: string): Promise<string> {
  return FILES[path] ?? Promise.reject(new Error("ENOENT"));
}

function resolved(configuration: Omit<LaunchConfiguration, "name">) {
  return resolveLaunch({ name: "Train", ...configuration }, PLACE, read);
}

test("the variables of the editor are filled in", () => {
  const cases: Record<string, string> = {
    workspaceFolder: "/ws",
    "workspaceFolder:lib": "/lib",
    workspaceFolderBasename: "ws",
    file: "/ws/src/model.py",
    fileBasename: "model.py",
    fileBasenameNoExtension: "model",
    fileDirname: "/ws/src",
    fileExtname: ".py",
    relativeFile: `src${sep}model.py`,
    relativeFileDirname: "src",
    "env:DATA": "/data",
    "env:UNSET": "",
    "config:train.batch": "8",
    userHome: "/home/me",
    "/": sep,
  };
  for (const [name, value] of Object.entries(cases)) {
    assert.deepEqual(expand(`<${variable(name)}>`, PLACE), { text: `<${value}>`, unknown: [] }, name);
  }
});

test("what cannot be filled in stays and is named", () => {
  for (const name of ["command:pick", "input:epochs", "workspaceFolder:gone", "config:none", "nonsense"]) {
    assert.deepEqual(expand(variable(name), PLACE), { text: variable(name), unknown: [variable(name)] });
  }
});

test("only configurations that start a Python program are offered", () => {
  const program = { type: "debugpy", request: "launch", program: "train.py" };
  const good = [
    { name: "a", ...program },
    { name: "b", type: "python", request: "launch", module: "pkg" },
  ];
  const others = [
    { name: "c", ...program, request: "attach" },
    { name: "d", ...program, type: "node" },
    { name: "e", type: "debugpy", request: "launch" },
    { ...program },
    null,
    "f",
  ];
  assert.deepEqual(pythonLaunches([...good, ...others]), good);
  assert.deepEqual(pythonLaunches(undefined), []);
});

test("a program is started with its arguments, environment and folder", async () => {
  assert.deepEqual(
    await resolved({
      program: `${variable("workspaceFolder")}/scripts/train.py`,
      args: ["--data", variable("env:DATA"), 3],
      env: { SEED: "2", LOG: variable("userHome") },
      envFile: `${variable("workspaceFolder")}/.env`,
      cwd: "runs",
      python: "/venv/bin/python",
    }),
    {
      start: {
        entry: "scripts/train.py",
        arguments: ["--data", "/data", "3"],
        environment: { ROOT: "/root", SEED: "2", NAME: "two words", LOG: "/home/me" },
        cwd: "/ws/runs",
        python: "/venv/bin/python",
      },
    },
  );
});

test("a program is looked for from the folder it is started in", async () => {
  const launch = await resolved({ program: "train.py", cwd: "scripts" });
  assert.equal("start" in launch && launch.start.entry, "scripts/train.py");
  const outside = await resolved({ program: "/elsewhere/train.py" });
  assert.equal("start" in outside && outside.start.entry, "/elsewhere/train.py");
});

test("arguments may be one text, as on a command line", async () => {
  const launch = await resolved({ program: "train.py", args: "--name 'two words' -v" });
  assert.deepEqual("start" in launch && launch.start.arguments, ["--name", "two words", "-v"]);
});

test("a module is run as such, and a test that pytest is given as that test", async () => {
  const launch = await resolved({ module: "pkg.train", args: ["-v"] });
  assert.deepEqual("start" in launch && [launch.start.entry, launch.start.arguments], ["-m pkg.train", ["-v"]]);
  const tested = await resolved({ module: "pytest", args: ["-x", "tests/test_net.py::test_forward"] });
  const expected = ["tests/test_net.py::test_forward", []];
  assert.deepEqual("start" in tested && [tested.start.entry, tested.start.arguments], expected);
});

test("what only a debug session knows is explained", async () => {
  const launch = await resolved({ program: "train.py", args: [variable("input:epochs")] });
  assert.match(
    "problem" in launch ? launch.problem : "",
    /^“Train” uses \$\{input:epochs\}, which only a debug session/,
  );
});

test("the interpreter that is selected is no problem", async () => {
  const launch = await resolved({ program: "train.py", python: variable("command:python.interpreterPath") });
  assert.ok("start" in launch && launch.start.python === undefined);
});

test("an environment file that is not there is named", async () => {
  const launch = await resolved({ program: "train.py", envFile: "gone.env" });
  assert.match("problem" in launch ? launch.problem : "", /^“Train” reads its environment from gone\.env/);
});
