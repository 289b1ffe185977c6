import assert from "node:assert/strict";
import { test } from "node:test";
import { describe, describeInterpreter, type Status } from "../../extension/src/statusText.ts";

const CALM: Status = {
  server: { kind: "ready" },
  trusted: true,
  folder: "/ws",
  running: false,
  interpreter: { path: "/ws/.venv/bin/python", origin: "workspace" },
  environment: undefined,
  problem: undefined,
};

const CASES: [string, Partial<Status>, { text: string; severity: string; busy: boolean; command: string }][] = [
  ["ready", {}, { text: "ForwardLens", severity: "information", busy: false, command: "forwardlens.selectEntry" }],
  [
    "starting",
    { server: { kind: "starting" } },
    { text: "Starting", severity: "information", busy: true, command: "forwardlens.showLog" },
  ],
  [
    "running",
    { running: true },
    { text: "Profiling", severity: "information", busy: true, command: "forwardlens.cancel" },
  ],
  [
    "a failed run",
    { problem: { message: "boom", interpreter: false } },
    { text: "Last run failed", severity: "error", busy: false, command: "forwardlens.showLog" },
  ],
  [
    "a run that failed for its interpreter",
    { problem: { message: "no torch", interpreter: true } },
    { text: "Last run failed", severity: "error", busy: false, command: "forwardlens.showLog" },
  ],
  [
    "a new run after a failed one",
    { problem: { message: "boom", interpreter: false }, running: true },
    { text: "Profiling", severity: "information", busy: true, command: "forwardlens.cancel" },
  ],
  [
    "restricted",
    { trusted: false },
    { text: "Restricted", severity: "information", busy: false, command: "workbench.trust.manage" },
  ],
  [
    "no server, which matters more than trust",
    { trusted: false, server: { kind: "failed", reason: "no Python" } },
    { text: "Not running", severity: "error", busy: false, command: "forwardlens.showLog" },
  ],
];

for (const [name, change, expected] of CASES) {
  test(name, () => {
    const { text, severity, busy, action } = describe({ ...CALM, ...change });
    assert.deepEqual({ text, severity, busy, command: action.command }, expected);
  });
}

const ENVIRONMENT = { python: "3.11.7", torch: "2.13.0", device: "cuda:0", device_name: "NVIDIA H200" };

test("the interpreter has a row of its own, as short as it can be", () => {
  const { text, detail, label, action } = describeInterpreter({ ...CALM, environment: ENVIRONMENT }) ?? {};
  assert.deepEqual([text, detail], [".venv/bin/python", "from workspace"]);
  assert.equal(label, "ForwardLens: Python 3.11.7, /ws/.venv/bin/python, from workspace");
  assert.equal(action?.command, "forwardlens.selectInterpreter");
  const beside = { path: "/ws2/.venv/bin/python", origin: "setting" };
  assert.equal(describeInterpreter({ ...CALM, interpreter: beside })?.text, "/ws2/.venv/bin/python");
  const far = { path: "/home/somebody/miniconda3/environments/research/bin/python", origin: "Python extension" };
  assert.equal(describeInterpreter({ ...CALM, interpreter: far })?.text, "…/research/bin/python");
});

test("an interpreter is not looked up before it is needed, nor shown where nothing may run", () => {
  assert.equal(describeInterpreter({ ...CALM, interpreter: undefined })?.detail, "found when you profile");
  assert.equal(describeInterpreter({ ...CALM, trusted: false }), undefined);
});

test("after a run the device and the version of torch are told", () => {
  assert.equal(describe({ ...CALM, environment: ENVIRONMENT }).detail, "torch 2.13.0 on cuda:0 NVIDIA H200");
  const cpu = { ...ENVIRONMENT, device: "cpu", device_name: "AMD EPYC" };
  assert.equal(describe({ ...CALM, environment: cpu }).detail, "torch 2.13.0 on cpu");
});

test("a message is shown in short and read out in full", () => {
  const message = "a message that goes on and on, and ends with the next step, which is not to be lost";
  const { detail, label } = describe({ ...CALM, problem: { message, interpreter: false } });
  assert.equal(label, `ForwardLens: Last run failed. ${message}`);
  assert.ok(detail.length < 40 && detail.endsWith("…"));
});
