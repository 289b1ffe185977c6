import assert from "node:assert/strict";
import { test } from "node:test";
import { stretches } from "../e2e/stretches.ts";

function frame(id: number, url: string, ...children: number[]) {
  return { id, callFrame: { url, functionName: "" }, children };
}

test("a stretch lasts as long as one of our frames is on the stack, and long gaps are not work", () => {
  const nodes = [frame(1, "", 2, 4), frame(2, "/ours.cjs", 3), frame(3, "node:fs"), frame(4, "/theirs.js")];
  const profile = { nodes, samples: [1, 2, 3, 4, 2, 1], timeDeltas: [0, 1000, 2000, 3000, 500, 700] };
  assert.deepEqual(
    stretches(profile, (url) => url === "/ours.cjs"),
    [
      { lasted: 5, worked: 2 },
      { lasted: 0.7, worked: 0.7 },
    ],
  );
});
