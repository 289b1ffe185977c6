/** The report view on a real run: every view, sorted, filtered, clicked through, exported, and by keys alone. */

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { FrameLocator, Locator } from "playwright-core";
import { type Editor, SLOW_MS, until, withEditor } from "./editor.ts";
import { torchPython } from "./pythons.ts";

const TAGGER = `import torch
from torch import nn


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(1000, 256)

    def forward(self, ids):
        words = []
        for position in range(ids.shape[1]):
            words.append(self.word(ids[:, position]))
        return torch.stack(words, dim=1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = Embeddings()
        self.hidden = nn.Linear(256, 512)
        self.head = nn.Linear(512, 9)

    def forward(self, ids):
        words = self.embeddings(ids)
        hidden = torch.relu(self.hidden(words))
        return self.head(hidden)


def build():
    torch.manual_seed(0)
    return Tagger().eval(), (torch.randint(0, 1000, (8, 128)),)
`;
const FORWARD = /^\s*words = self\.embeddings/;
const LOOP = /^\s*words\.append\(self\.word\(/;

test("the report shows a run, leads to its lines and is exported", { timeout: 8 * SLOW_MS }, async () => {
  const options = {
    files: { "tagger.py": TAGGER },
    settings: { "forwardlens.interpreter": torchPython() },
    trust: "granted",
  } as const;
  await withEditor("report", options, async (editor) => {
    const refusals: string[] = [];
    editor.page.on("console", (message) => {
      if (/Content Security Policy|Refused to/i.test(message.text()) && /report\.(js|css)/.test(message.text())) {
        refusals.push(message.text());
      }
    });
    await editor.openFile("tagger.py");
    await profile(editor);
    await editor.runCommand("ForwardLens: Show Report");
    await tab(editor, "Operators").waitFor();

    await operators(editor);
    await timeline(editor);
    await memory(editor);
    await byKeysAlone(editor);
    await exported(editor);
    await beforeAndAfter(editor);
    assert.deepEqual(refusals, []);
  });
});

async function profile(editor: Editor): Promise<void> {
  await editor.page.keyboard.press("Control+1");
  await editor.goToCode(FORWARD);
  await editor.runCommand("ForwardLens: Profile this forward()");
  await editor.progress().waitFor();
  await editor.progress().waitFor({ state: "detached", timeout: 2 * SLOW_MS });
}

function page(editor: Editor): FrameLocator {
  return editor.webview();
}

function tab(editor: Editor, name: string): Locator {
  return page(editor).getByRole("tab", { name });
}

async function operators(editor: Editor): Promise<void> {
  const table = page(editor).getByRole("table", { name: "Operators" });
  const first = table.locator("tbody tr").first();
  await first.waitFor();
  await editor.screenshot("operators");

  await page(editor).getByRole("button", { name: "Calls" }).click();
  const heading = page(editor).getByRole("columnheader", { name: "Calls" });
  assert.equal(await heading.getAttribute("aria-sort"), "descending");
  const calls = (await table.locator("tbody td:nth-child(6)").allInnerTexts()).map(Number);
  assert.deepEqual(
    calls,
    [...calls].sort((one, other) => other - one),
  );

  await page(editor).getByRole("searchbox").fill("embedding :13");
  await table.getByRole("row", { name: /^embedding tagger\.py:13/ }).waitFor();
  await page(editor).getByText("1 of ").waitFor();
  await editor.screenshot("operators-filtered");

  await first.click();
  await atLine(editor, lineOf(LOOP));
  await page(editor).getByRole("searchbox").fill("");
}

function lineOf(code: RegExp): number {
  return 1 + TAGGER.split("\n").findIndex((line) => code.test(line));
}

/** The cursor's line, as the status bar tells it. */
async function atLine(editor: Editor, line: number): Promise<void> {
  await editor.page.locator(".statusbar-item", { hasText: `Ln ${line},` }).waitFor();
}

async function timeline(editor: Editor): Promise<void> {
  await tab(editor, "Timeline").click();
  const chart = page(editor).getByRole("application", { name: /^Timeline/ });
  await chart.waitFor();
  await page(editor).getByText("CPU run: no device lane.").waitFor();
  await editor.screenshot("timeline");

  // The first line of the forward lies below the axis, at the left end.
  const canvas = chart.locator("canvas");
  await canvas.click({ position: { x: 40, y: 30 } });
  await atLine(editor, lineOf(FORWARD));

  await page(editor).getByRole("button", { name: "Zoom in" }).click();
  await page(editor).getByRole("button", { name: "Zoom in" }).click();
  assert.equal(await page(editor).getByRole("button", { name: "Whole forward" }).isEnabled(), true);
  await editor.screenshot("timeline-zoomed");
  await page(editor).getByRole("button", { name: "Whole forward" }).click();
}

async function memory(editor: Editor): Promise<void> {
  await tab(editor, "Memory").click();
  const held = page(editor).getByRole("table", { name: /hold memory/ });
  await held.locator("tbody tr").first().waitFor();
  assert.match((await page(editor).locator(".verdict").textContent()) ?? "", /[\d.]+ MiB/);
  const plot = page(editor).getByRole("application", { name: /^Memory/ });
  await plot.focus();
  await editor.page.keyboard.press("p");
  await page(editor).locator("#point", { hasText: "MiB" }).waitFor();
  await editor.screenshot("memory");

  const row = held.locator("tbody tr").first();
  const line = /:(\d+)/.exec((await row.textContent()) ?? "")?.[1];
  await row.click();
  await atLine(editor, Number(line));
}

/** From the code to a view, to an event, and to its line, without a mouse. */
async function byKeysAlone(editor: Editor): Promise<void> {
  const { keyboard } = editor.page;
  await editor.runCommand("ForwardLens: Show Report");
  await editor.page.locator(".editor-group-container.active .tab.active", { hasText: "ForwardLens report" }).waitFor();
  await until("the page to have the focus", async () => {
    return (await editor.page.evaluate("document.activeElement?.tagName")) === "IFRAME" || undefined;
  });
  await until("the tab of the view to have the focus", async () => {
    await keyboard.press("Tab");
    return (await page(editor).locator('[role="tab"]:focus').count()) > 0 || undefined;
  });
  await keyboard.press("ArrowLeft");
  await until("the timeline to have the focus", async () => {
    await keyboard.press("Tab");
    return (await page(editor).locator(".chart:focus").count()) > 0 || undefined;
  });
  await keyboard.press("ArrowRight");
  await keyboard.press("ArrowDown");
  await keyboard.press("Home");
  const event = page(editor).locator("#event");
  await until("the loop's line", async () => {
    await keyboard.press("ArrowRight");
    return (await event.filter({ hasText: "words.append" }).count()) > 0 || undefined;
  });
  for (const key of ["+", "+", "+"]) {
    await keyboard.press(key);
  }
  await editor.screenshot("keyboard");
  await keyboard.press("Enter");
  await atLine(editor, lineOf(LOOP));
}

async function exported(editor: Editor): Promise<void> {
  for (const [title, name] of [
    ["speedscope", "Tagger.speedscope.json"],
    ["Chrome trace", "Tagger.trace.json"],
    ["CSV", "Tagger.csv"],
  ] as const) {
    await page(editor).getByRole("button", { name: "Export…" }).click();
    const row = editor.page.locator(".quick-input-list .monaco-list-row", { hasText: title });
    await row.waitFor();
    if (title === "speedscope") {
      await editor.screenshot("export");
    }
    await row.click();
    const file = join(editor.workspace, name);
    const input = editor.page.locator(".quick-input-widget input.input");
    await until("the save dialog", async () => (await input.inputValue()).endsWith(name) || undefined);
    await editor.page.keyboard.press("Enter");
    await until(`${name} to be written`, async () => existsSync(file) || undefined);
    await editor.notification("The run was written to").first().waitFor();
    const text = await until("all of it", async () => readFileSync(file, "utf8") || undefined);
    assert.ok(title === "CSV" ? text.startsWith("file,line,") : JSON.parse(text));
    await editor.runCommand("Notifications: Clear All Notifications");
  }
}

async function beforeAndAfter(editor: Editor): Promise<void> {
  await tab(editor, "Before and after").click();
  await page(editor).getByText("One run so far.").waitFor();
  await editor.screenshot("one-run");

  await editor.page.keyboard.press("Control+1");
  await editor.goToCode(LOOP);
  // Behind the expression that the finding is about.
  await editor.page.keyboard.press("End");
  await editor.page.keyboard.press("ArrowLeft");
  await editor.applyFix(/outputs equal/);
  await editor.save();
  await page(editor).getByText("The code was edited since this run").waitFor();
  await editor.screenshot("stale");

  await page(editor).getByRole("button", { name: "Profile again" }).first().click();
  await page(editor)
    .getByText("Before", { exact: true })
    .first()
    .waitFor({ timeout: 2 * SLOW_MS });
  await page(editor).getByText("The code was edited since this run").waitFor({ state: "detached" });
  const gone = page(editor).getByRole("row", { name: /vanished/ });
  await page(editor).getByRole("table", { name: "Lines before and after" }).getByText("gone").first().waitFor();
  await gone.first().waitFor();
  await editor.screenshot("before-after");
}
