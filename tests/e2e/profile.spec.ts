/** From a new folder to a fixed file: what a first user does. */

import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { type Editor, ROOT, SLOW_MS, withEditor } from "./editor.ts";
import { bareEnvironment, temporaryFolder, torchOnlyEnvironment } from "./pythons.ts";

const FORWARD = /^\s*def forward\(self, input_ids, mask\)/;
const LOOP = /^\s*words\.append\(self\.word\(/;

test("a forward is profiled, its costs shown and a fault fixed", { timeout: 10 * SLOW_MS }, async () => {
  const folder = temporaryFolder();
  const options = {
    workspaceFrom: join(ROOT, "samples"),
    // A machine without pip, and an interpreter with nothing but torch.
    path: dirname(bareEnvironment(join(folder, "bare"))),
    settings: { "forwardlens.interpreter": torchOnlyEnvironment(join(folder, "torch")) },
    trust: "ask",
  } as const;
  await withEditor("profile", options, profileAndFix).finally(() => rm(folder, { recursive: true, force: true }));
});

async function profileAndFix(editor: Editor): Promise<void> {
  await editor.answerTrust(true);
  await editor.openFile("slow_bert.py");
  await editor.goToCode(FORWARD);
  await editor.pressProfile(FORWARD);

  await editor.progress().filter({ hasText: "Tim" }).waitFor();
  await editor.screenshot("progress");

  await editor.goToCode(LOOP);
  await editor
    .line(LOOP)
    .filter({ hasText: /\d\s*%/ })
    .waitFor();
  await editor.squiggle().first().waitFor();
  // The fixes are tried before the run ends.
  await editor.progress().waitFor({ state: "detached" });
  await editor.screenshot("costs");

  await editor.showProblems();
  const fault = editor.problem(/embedding-in-loop/);
  await fault.waitFor();
  await editor.screenshot("problems");

  // The finding's name leads to its page, which came with the extension.
  await fault.getByText("embedding-in-loop", { exact: true }).click();
  await editor.webview().getByRole("heading", { name: "Why it costs" }).waitFor();
  await editor.screenshot("rule");
  await editor.closeTab("Preview embedding-in-loop.md");

  await editor.openProblem(fault);
  await editor.applyFix(/outputs equal/);
  await editor.save();
  const after = await editor.fileText("slow_bert.py");
  assert.doesNotMatch(after, new RegExp(LOOP, "m"));
  assert.match(after, /^ *words = self\.word\(input_ids\)/m);
  await editor.screenshot("fixed");

  await editor.goToCode(FORWARD);
  await editor.pressProfile(FORWARD);
  await editor.progress().waitFor();
  await editor.progress().waitFor({ state: "detached" });
  await editor.lensAbove(FORWARD, /^(?!~).* finding/);
  assert.equal(await editor.problem(/embedding-in-loop/).count(), 0);
  await editor.screenshot("again");

  await (await editor.lensAbove(FORWARD, /finding/)).click();
  await editor.page.locator(".tab.active", { hasText: "ForwardLens report" }).waitFor();
  await editor.webview().getByRole("heading", { name: "EntityTagger" }).waitFor();
  await editor.screenshot("report");
}
