/** The interpreter that the Python extension has selected, what helps if it is the wrong one, and what goes before it. */

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { SLOW_MS, withEditor } from "./editor.ts";
import { bareEnvironment, temporaryFolder, torchPython } from "./pythons.ts";

const MODEL = `
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 1024)

    def forward(self, x):
        return self.linear(x)


def build():
    return Model().eval(), (torch.zeros(256, 1024),)
`;

/** Only pyproject.toml knows that `make` is an entry point. */
const HIDDEN = MODEL.replace("def build", "def make").replace(/return (.*,\))\n$/, "return ($1) if True else None\n");

const FORWARD = /^\s*def forward\(self, x\)/;
const COSTLY = /return self\.linear\(x\).*%/;

test("the interpreter of the Python extension is used, unless the project names one", {
  timeout: 10 * SLOW_MS,
}, async () => {
  const folder = temporaryFolder();
  const [bare, torch] = [bareEnvironment(folder), torchPython()];
  const configured = `[tool.forwardlens.entries.model]\nrun = "configured.py:make"\npython = ${JSON.stringify(torch)}\n`;
  const options = {
    files: {
      "model.py": MODEL,
      "configured.py": HIDDEN,
      "pyproject.toml": configured,
    },
    settings: { "standIn.python": bare, "standIn.others": [bare, torch] },
    extensions: ["ms-python.python"],
    trust: "granted",
  } as const;
  await withEditor("interpreters", options, async (editor) => {
    // The selected one has no torch, but this entry has a Python of its own.
    await editor.openFile("configured.py");
    await (await editor.lensAbove(FORWARD, "Profile this forward()")).click();
    await editor.line(COSTLY).waitFor();
    await editor.progress().waitFor({ state: "detached" });
    await editor.languageStatus(/torch .* on cpu.*from pyproject\.toml.*Choose interpreter/);
    await editor.screenshot("configured");

    await editor.openFile("model.py");
    await (await editor.lensAbove(FORWARD, "Profile this forward()")).click();
    const message = editor.notification(/has no torch/).filter({ hasText: bare });
    await message.waitFor();
    await editor.screenshot("wrong");
    await message.getByRole("button", { name: "Choose interpreter" }).click();
    await editor.pickRow(torch).click();
    await editor.profileUntilCosts(FORWARD, COSTLY);
    await editor.languageStatus(/torch .* on cpu.*from Python extension/);
    await editor.screenshot("right");
  }).finally(() => rm(join(folder), { recursive: true, force: true }));
});
