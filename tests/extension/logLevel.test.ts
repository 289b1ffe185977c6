import assert from "node:assert/strict";
import { test } from "node:test";
import { logLevel } from "../../extension/src/logLevel.ts";

test("the level of a log line is what Python wrote in front", () => {
  assert.equal(logLevel("ERROR forwardlens.lsp.runs: a run failed"), "error");
  assert.equal(logLevel("CRITICAL root: gone"), "error");
  assert.equal(logLevel("WARNING pygls: slow"), "warn");
  assert.equal(logLevel("DEBUG asyncio: selector"), "debug");
  assert.equal(logLevel("INFO forwardlens: ready"), "info");
  assert.equal(logLevel("ERRORS are not levels"), "info");
  assert.equal(logLevel('  File "m.py", line 3, in <module>'), "info");
});
