import assert from "node:assert/strict";
import { test } from "node:test";
import { describe, type Status } from "../../extension/src/statusText.ts";

const CALM: Status = {
  server: { kind: "ready" },
  trusted: true,
  running: false,
  interpreter: { path: "/ws/.venv/bin/python", origin: "workspace" },
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
