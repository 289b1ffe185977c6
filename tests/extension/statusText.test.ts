import assert from "node:assert/strict";
import { test } from "node:test";
import { describe, type Status } from "../../extension/src/statusText.ts";

const CALM: Status = {
  server: { kind: "ready" },
  trusted: true,
  running: false,
  interpreter: { path: "/ws/.venv/bin/python", origin: "workspace" },
  environment: undefined,
  problem: undefined,
};

const CASES: [string, Partial<Status>, { text: string; severity: string; busy: boolean; command: string }][] = [
  [
    "ready",
    {},
    { text: "ForwardLens", severity: "information", busy: false, command: "forwardlens.selectInterpreter" },
  ],
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
    { text: "Last run failed", severity: "error", busy: false, command: "forwardlens.selectInterpreter" },
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

test("the interpreter is named with where it came from", () => {
  assert.equal(describe(CALM).detail, "/ws/.venv/bin/python (from workspace)");
  assert.equal(describe({ ...CALM, interpreter: undefined }).detail, "");
});

test("after a run the device and the versions are told too", () => {
  const environment = { python: "3.11.7", torch: "2.13.0", device: "cuda:0", device_name: "NVIDIA H200" };
  assert.equal(
    describe({ ...CALM, environment }).detail,
    "cuda:0 NVIDIA H200, torch 2.13.0, Python 3.11.7: /ws/.venv/bin/python (from workspace)",
  );
  const cpu = { ...environment, device: "cpu", device_name: null };
  assert.equal(
    describe({ ...CALM, interpreter: undefined, environment: cpu }).detail,
    "cpu, torch 2.13.0, Python 3.11.7",
  );
});
