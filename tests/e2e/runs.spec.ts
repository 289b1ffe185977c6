/** While a run goes on and after it: it can be stopped, and its costs follow what the user types. One editor for all. */

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Editor, SLOW_MS, until, withEditor } from "./editor.ts";
import { torchPython } from "./pythons.ts";

const PID = "pid.txt";

const SLEEPER = `
import os
import pathlib
import time

import torch
from torch import nn


class Sleeper(nn.Module):
    def forward(self, x):
        pathlib.Path("${PID}").write_text(str(os.getpid()))
        time.sleep(3600)
        return x


def build():
    return Sleeper(), (torch.zeros(1),)
`;

const TAGGER = `
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(1000, 64)
        self.head = nn.Linear(64, 512)

    def forward(self, ids):
        words = [self.word(ids[:, t]) for t in range(ids.shape[1])]
        hidden = torch.stack(words, dim=1)
        return self.head(hidden)


def build():
    return Tagger().eval(), (torch.randint(0, 1000, (8, 256)),)
`;

const SLEEP = /^\s*def forward\(self, x\)/;
const FORWARD = /^\s*def forward\(self, ids\)/;
const LOOP = /^\s*words = \[self\.word\(/;
const HEAD = /^\s*return self\.head\(/;
const FRESH = /(?<![~\d.])\d+(\.\d)?\s%/;
const STALE = /~\d+(\.\d)?\s%/;

test("a run is stopped, the next one works, and its costs follow edits", { timeout: 10 * SLOW_MS }, async () => {
  const files = { "sleeper.py": SLEEPER, "tagger.py": TAGGER };
  const settings = { "forwardlens.interpreter": torchPython(), "forwardlens.profileOnSave": true };
  await withEditor("runs", { files, settings, trust: "granted" }, async (editor) => {
    await cancel(editor);
    await profileAnother(editor);
    await edit(editor);
    await profileOnSave(editor);
  });
});

async function cancel(editor: Editor): Promise<void> {
  await editor.openFile("sleeper.py");
  await editor.pressProfile(SLEEP);
  await editor.progress().waitFor();
  const pid = await until("the forward to run", async () => written(join(editor.workspace, PID)));
  assert.ok(isAlive(pid));
  await editor.screenshot("cancel");

  await editor.progress().getByRole("button", { name: "Cancel" }).click();
  await until("the run's process to be gone", async () => !isAlive(pid) || undefined);
  await editor.progress().waitFor({ state: "detached" });
  await editor.showProblems();
  await editor.page.locator(".markers-panel", { hasText: "No problems have been detected" }).waitFor();
  assert.equal(await editor.page.locator(".notification-toast").count(), 0);
  await editor.screenshot("cancelled");
}

async function profileAnother(editor: Editor): Promise<void> {
  await editor.openFile("tagger.py");
  await editor.pressProfile(FORWARD);
  await editor.line(LOOP).filter({ hasText: FRESH }).waitFor();
  await editor.line(HEAD).filter({ hasText: FRESH }).waitFor();
  await editor.progress().waitFor({ state: "detached" });
}

async function edit(editor: Editor): Promise<void> {
  // Lines above it: everything moves along, and the numbers stay those of the code.
  await editor.goToCode(/^import torch/);
  await editor.page.keyboard.press("Home");
  await editor.page.keyboard.insertText("LIMIT = 1\nWIDTH = 2\n");
  await editor.line(/^WIDTH = 2/).waitFor();
  await editor.line(LOOP).filter({ hasText: FRESH }).waitFor();
  await editor
    .problem(/embedding-in-loop/)
    .filter({ hasText: "Ln 15" })
    .waitFor();
  await editor.lensAbove(FORWARD, /^~.* finding/);
  await editor.screenshot("moved");

  // The costly line itself: its number is old now, and there is no finding that still fits.
  await editor.line(LOOP).click();
  await editor.page.keyboard.press("End");
  await editor.page.keyboard.insertText("; pass");
  await editor.line(LOOP).filter({ hasText: STALE }).waitFor();
  await editor.line(HEAD).filter({ hasText: FRESH }).waitFor();
  await editor.problem(/embedding-in-loop/).waitFor({ state: "detached" });
  await editor.openFixes();
  const choices = editor.page.locator(".action-widget .monaco-list-row");
  await choices.filter({ hasText: "Profile again" }).waitFor();
  await editor.screenshot("edited");
  assert.equal(await choices.filter({ hasText: "outputs equal" }).count(), 0);
}

async function profileOnSave(editor: Editor): Promise<void> {
  await editor.page.keyboard.press("Escape");
  await editor.save();
  await editor.page.locator(".statusbar-item", { hasText: "Profiling" }).waitFor();
  await editor.page.locator("[id='status.languageStatus'] .codicon-modifier-spin").waitFor();
  assert.equal(await editor.progress().count(), 0);
  await editor.screenshot("saved");
  await editor.line(LOOP).filter({ hasText: FRESH }).waitFor();
  await editor.problem(/embedding-in-loop/).waitFor();
}

function written(path: string): number | undefined {
  const text = existsSync(path) ? readFileSync(path, "utf8") : "";
  return text === "" ? undefined : Number(text);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
