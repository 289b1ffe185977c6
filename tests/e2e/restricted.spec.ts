/** A folder that nobody trusts: looking at it must not run any of it. */

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { SLOW_MS, until, withEditor } from "./editor.ts";

const MARKER = "it-ran.txt";

const BOOBY_TRAP = `
import pathlib
pathlib.Path(__file__).resolve().parent.joinpath("${MARKER}").write_text("by " + __name__)
`;

const MODEL = `
from torch import nn
${BOOBY_TRAP}

class Model(nn.Module):
    def forward(self, x):
        return x


def build():
    import torch
    return Model(), (torch.zeros(1),)
`;

const FAKE_PYTHON = `#!/bin/sh
echo "$0 $*" > "$(dirname "$(readlink -f "$0")")/../../${MARKER}"
exec python3 "$@"
`;

const WORKSPACE = {
  "model.py": MODEL,
  // Names that a careless server would import from here.
  "forwardlens.py": BOOBY_TRAP,
  "json.py": BOOBY_TRAP,
  "pygls.py": BOOBY_TRAP,
  "sitecustomize.py": BOOBY_TRAP,
  ".venv/bin/python": FAKE_PYTHON,
  "env/bin/python": FAKE_PYTHON,
  ".vscode/settings.json": JSON.stringify({
    "forwardlens.interpreter": "$".concat("{workspaceFolder}/env/bin/python"),
    "forwardlens.serverPython": "$".concat("{workspaceFolder}/env/bin/python"),
    "forwardlens.profileOnSave": true,
  }),
};

const FORWARD = /^\s*def forward\(self, x\)/;

test("nothing runs in a workspace that is not trusted", { timeout: 10 * SLOW_MS }, async () => {
  await withEditor("restricted", { files: WORKSPACE, trust: "ask" }, async (editor) => {
    const marker = join(editor.workspace, MARKER);
    await editor.answerTrust(false);
    await editor.openFile("model.py");

    // The lens says that the server is up, so everything that runs by itself has run.
    await editor.pressProfile(FORWARD);
    await editor.notification(/Restricted Mode does not allow/).waitFor();
    await editor.screenshot("refused");

    const offered = await editor.paletteRows("ForwardLens:");
    assert.ok(
      offered.some((row) => row.includes("Show Log")),
      offered.join("; "),
    );
    assert.ok(!offered.some((row) => row.includes("Profile this forward()")), offered.join("; "));
    assert.equal(existsSync(marker), false);

    await editor.trustFromMessage();
    await editor.screenshot("trusted");
    await editor.pressProfile(FORWARD);
    await until("the run in the now trusted workspace", async () => existsSync(marker) || undefined);
  });
});
