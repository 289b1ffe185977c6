/** Without a mouse, in every kind of theme, with the costs hidden, and in a notebook. One editor for all. */

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { type Editor, SLOW_MS, withEditor } from "./editor.ts";
import { torchPython } from "./pythons.ts";

const TAGGER = `import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(1000, 64)
        self.head = nn.Linear(64, 512)

    def forward(self, ids):
        words = [self.word(ids[:, t]) for t in range(ids.shape[1])]
        return self.head(torch.stack(words, dim=1))


def build():
    return Tagger().eval(), (torch.randint(0, 1000, (8, 256)),)
`;

const cell = (source: string) => ({ cell_type: "code", execution_count: null, metadata: {}, outputs: [], source });
const NOTEBOOK = JSON.stringify({
  cells: [
    cell("import torch\nfrom torch import nn"),
    cell("class Net(nn.Module):\n    def forward(self, x):\n        return x"),
  ],
  metadata: { language_info: { name: "python" } },
  nbformat: 4,
  nbformat_minor: 5,
});

const FORWARD = /^\s*def forward\(self, ids\)/;
const LOOP = /^\s*words = \[self\.word\(/;
const HEAD = /^\s*return self\.head\(/;
const SHARE = /\d\s%/;

test("keyboard, themes, hidden costs and notebooks", { timeout: 10 * SLOW_MS }, async () => {
  const files = { "tagger.py": TAGGER, "net.ipynb": NOTEBOOK };
  const settings = { "forwardlens.interpreter": torchPython() };
  await withEditor("looks", { files, settings, trust: "granted" }, async (editor) => {
    await editor.openFile("tagger.py");
    await profileByKeyboard(editor);
    await inEveryTheme(editor, "");
    await showReport(editor);
    await inEveryTheme(editor, "-report");
    await editor.runCommand("View: Revert and Close Editor");
    await hideCosts(editor);
    await fixByKeyboard(editor);
    await openNotebook(editor);
  });
});

async function profileByKeyboard(editor: Editor): Promise<void> {
  await editor.goToCode(FORWARD);
  await editor.runCommand("ForwardLens: Profile this forward()");
  await editor.line(LOOP).filter({ hasText: SHARE }).waitFor();
  await editor.line(HEAD).filter({ hasText: SHARE }).waitFor();
  await editor.progress().waitFor({ state: "detached" });
  const costly = [12, 13];
  for (const line of [...costly, costly[0]]) {
    await editor.runCommand("ForwardLens: Go to Next Costly Line");
    await editor.page.locator(".statusbar-item", { hasText: `Ln ${line},` }).waitFor();
  }
}

/** What the editor shows, under each kind of theme; dark again at the end. */
async function inEveryTheme(editor: Editor, what: string): Promise<void> {
  for (const [theme, kind] of [
    ["Default High Contrast", "hc-black"],
    ["Default High Contrast Light", "hc-light"],
    ["Default Light Modern", "vs"],
    ["Default Dark Modern", "vs-dark"],
  ]) {
    const folder = join(editor.workspace, ".vscode");
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "settings.json"), JSON.stringify({ "workbench.colorTheme": theme }));
    await editor.page.locator(`.monaco-workbench.${kind}`).waitFor();
    await editor.screenshot(`${kind}${what}`);
  }
}

async function showReport(editor: Editor): Promise<void> {
  await editor.runCommand("ForwardLens: Show Report");
  await editor.webview().getByRole("tab", { name: "Timeline" }).click();
  await editor
    .webview()
    .getByRole("application", { name: /^Timeline/ })
    .waitFor();
}

async function hideCosts(editor: Editor): Promise<void> {
  await editor.runCommand("ForwardLens: Show or Hide Costs");
  await editor.line(LOOP).filter({ hasNotText: SHARE }).waitFor();
  await editor.screenshot("hidden");
  await editor.runCommand("ForwardLens: Show or Hide Costs");
  await editor.line(LOOP).filter({ hasText: SHARE }).waitFor();
}

async function fixByKeyboard(editor: Editor): Promise<void> {
  await editor.goToCode(/^import torch/);
  await editor.page.keyboard.press("F8");
  await editor.page.locator(".marker-widget", { hasText: "Tagger.forward" }).waitFor();
  await editor.page.keyboard.press("F8");
  await editor.page.locator(".marker-widget", { hasText: "self.word" }).waitFor();
  await editor.screenshot("next-problem");
  await editor.page.keyboard.press("Escape");
  await editor.openFixes();
  await editor.page.locator(".action-widget .monaco-list-row", { hasText: "outputs equal" }).waitFor();
  await editor.page.keyboard.press("Enter");
  await editor.save();
  assert.doesNotMatch(await editor.fileText("tagger.py"), new RegExp(LOOP, "m"));
}

async function openNotebook(editor: Editor): Promise<void> {
  await editor.openFile("net.ipynb");
  await editor.page.locator(".view-line", { hasText: "class" }).filter({ visible: true }).click();
  await editor.languageStatus(/Not in notebooks yet/);
  await editor.screenshot("notebook");
  assert.equal(await editor.page.locator(".notification-toast").count(), 0);
}
