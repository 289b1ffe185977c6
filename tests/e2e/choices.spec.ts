/** Choosing what to run, and running what is not saved. One editor for all. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Editor, SLOW_MS, withEditor } from "./editor.ts";
import { torchPython } from "./pythons.ts";

const NET = `import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 512)

    def forward(self, x):
        return self.head(x)
`;

const TRAIN = `import os
import sys

import torch

from net import Net

if __name__ == "__main__":
    assert sys.argv[1:] == ["--rows", "two words"], sys.argv
    assert os.environ["SEED"] == "7" and os.environ["FROM_FILE"] == "yes", "no environment"
    assert os.path.basename(os.getcwd()) == "runs", os.getcwd()
    Net()(torch.zeros(4096, 64))
`;

const TEST = `import torch

from net import Net


def test_forward():
    assert Net()(torch.zeros(2, 64)).shape == (2, 512)
`;

/** A variable of the editor, which would be filled in if it stood in a template. */
const variable = (name: string) => "$".concat("{", name, "}");

const LAUNCH = {
  version: "0.2.0",
  configurations: [
    {
      name: "Train",
      type: "debugpy",
      request: "launch",
      program: `${variable("workspaceFolder")}/train.py`,
      args: ["--rows", "two words"],
      cwd: `${variable("workspaceFolder")}/runs`,
      env: { SEED: "7" },
      envFile: `${variable("workspaceFolder")}/train.env`,
    },
    { name: "Ask", type: "debugpy", request: "launch", program: "train.py", args: [variable("input:rows")] },
  ],
};

const FILES = {
  "net.py": NET,
  "train.py": TRAIN,
  "train.env": "FROM_FILE=yes\n",
  "runs/keep.txt": "",
  "tests/test_net.py": TEST,
  ".vscode/launch.json": JSON.stringify(LAUNCH, null, 2),
};

const FORWARD = /^\s*def forward\(self, x\)/;
const HEAD = /^\s*return self\.head\(/;
const FRESH = /(?<![~\d.])\d+(\.\d)?\s%/;

test("a forward is profiled as a launch configuration calls it, and unsaved text is what runs", {
  timeout: 10 * SLOW_MS,
}, async () => {
  const settings = { "forwardlens.interpreter": torchPython() };
  await withEditor("choices", { files: FILES, settings, trust: "granted" }, async (editor) => {
    await editor.openFile("net.py");
    await choose(editor);
    await profileUnsaved(editor);
  });
});

async function choose(editor: Editor): Promise<void> {
  // Nothing in the file builds the model, so the question comes with the press.
  await editor.pressProfile(FORWARD);
  await editor.page.locator(".quick-input-widget", { hasText: "choose what to run" }).waitFor();
  for (const row of [
    /train\.py/,
    /tests\/test_net\.py::test_forward/,
    /Train.*train\.py --rows two words/,
    /Run this file/,
  ]) {
    await editor.pickRow(row).first().waitFor();
  }
  await editor.pickRow(/Ask.*only a debug session fills in/).waitFor();
  await editor.screenshot("what");
  await editor.pickRow(/Train.*--rows/).click();
  await editor.line(HEAD).filter({ hasText: FRESH }).waitFor();
  await editor.progress().waitFor({ state: "detached" });
  await editor.screenshot("launched");
}

async function profileUnsaved(editor: Editor): Promise<void> {
  await editor.goToCode(HEAD);
  await editor.page.keyboard.press("Home");
  await editor.page.keyboard.insertText("x = torch.sin(x); ");
  const added = /^\s*x = torch\.sin\(x\); return/;
  await editor.line(added).waitFor();
  // Remembered: no question this time.
  await editor.pressProfile(FORWARD);
  await editor.line(added).filter({ hasText: FRESH }).waitFor();
  await editor.page.locator(".tab.active.dirty").waitFor();
  assert.equal(await editor.fileText("net.py"), NET);
  await editor.progress().waitFor({ state: "detached" });
  await editor.screenshot("unsaved");

  // Another choice, made by hand.
  await editor.runCommand("ForwardLens: Choose What to Run…");
  await editor.pickRow(/Train.*chosen/).waitFor();
  await editor.pickRow(/::test_forward/).click();
  await editor.page.locator(".quick-input-widget").waitFor({ state: "hidden" });
  await editor.runCommand("ForwardLens: Choose What to Run…");
  await editor.pickRow(/::test_forward.*chosen/).waitFor();
  await editor.page.keyboard.press("Escape");
}
