/** Two folders in one window: each with its own interpreter, its own run and its own status. */

import { rm } from "node:fs/promises";
import { test } from "node:test";
import { SLOW_MS, withEditor } from "./editor.ts";
import { bareEnvironment, temporaryFolder, torchPython } from "./pythons.ts";

const MODEL = `
import time

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(512, 512)

    def forward(self, x):
        return self.linear(x)


def build():
    time.sleep(3600)
    return Model().eval(), (torch.zeros(64, 512),)
`;

const FORWARD = /^\s*def forward\(self, x\)/;

test("runs of two folders do not mix", { timeout: 10 * SLOW_MS }, async () => {
  const folder = temporaryFolder();
  const [bare, torch] = [bareEnvironment(folder), torchPython()];
  const selected = (python: string) => JSON.stringify({ "standIn.environment": python });
  const options = {
    files: {
      "one/alpha.py": MODEL,
      "one/.vscode/settings.json": selected(torch),
      "two/beta.py": MODEL,
      "two/.vscode/settings.json": selected(torch),
      "three/gamma.py": MODEL,
      "three/.vscode/settings.json": selected(bare),
    },
    roots: ["one", "two", "three"],
    extensions: ["ms-python.vscode-python-envs"],
    trust: "granted",
  } as const;
  await withEditor("roots", options, async (editor) => {
    for (const name of ["alpha.py", "beta.py"]) {
      await editor.openFile(name);
      await editor.pressProfile(FORWARD);
      await editor
        .progress()
        .filter({ hasText: `Loading ${name}:build` })
        .waitFor();
    }
    await editor
      .progress()
      .filter({ hasText: /\(one\).*Loading alpha\.py:build/ })
      .waitFor();
    await editor
      .progress()
      .filter({ hasText: /\(two\).*Loading beta\.py:build/ })
      .waitFor();

    // The third folder's interpreter has no torch: its failure and its status are its own.
    await editor.openFile("gamma.py");
    await editor.pressProfile(FORWARD);
    await editor
      .notification(/has no torch/)
      .filter({ hasText: folder })
      .waitFor();
    await editor.languageStatus(/Last run failed/);
    await editor.screenshot("three");
    await editor.restMouse();

    await editor.progress().filter({ hasText: "(one)" }).getByRole("button", { name: "Cancel" }).click();
    await editor.progress().filter({ hasText: "(one)" }).waitFor({ state: "detached" });
    await editor.openFile("alpha.py");
    await editor.languageStatus(/ForwardLens.*from Python extension/);
    await editor.openFile("beta.py");
    await editor.languageStatus(/Profiling/);
    await editor.screenshot("two");
    await editor.restMouse();
    await editor.progress().filter({ hasText: "(two)" }).getByRole("button", { name: "Cancel" }).click();
    await editor.progress().waitFor({ state: "detached" });
  }).finally(() => rm(folder, { recursive: true, force: true }));
});
