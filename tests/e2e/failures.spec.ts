/** What goes wrong on the user's side is told, can be looked up, and leaves everything working. */

import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { logs, SLOW_MS, until, withEditor } from "./editor.ts";
import { BUILT, COSTLY, FORWARD, LINEAR } from "./models.ts";
import { bareEnvironment, temporaryFolder, torchOnlyEnvironment, torchPython } from "./pythons.ts";

const BROKEN = `${LINEAR}

def build():
    raise FileNotFoundError("no checkpoint at weights.pt")
    return Model(), (torch.zeros(256, 1024),)
`;

const CALL = /return self\.linear\(x\)/;

test("a script that raises is reported, and the next run works", { timeout: 10 * SLOW_MS }, async () => {
  const files = { "broken.py": BROKEN, "working.py": BUILT };
  const settings = { "forwardlens.interpreter": torchPython() };
  await withEditor("broken", { files, settings, trust: "granted" }, async (editor) => {
    await editor.openFile("broken.py");
    await editor.pressProfile(FORWARD);
    const message = editor.notification(/no checkpoint at weights\.pt/);
    await message.waitFor();
    await editor.screenshot("message");
    await message.getByRole("button", { name: /^show log$/i }).click();
    await editor
      .outputLine(/FileNotFoundError/)
      .first()
      .waitFor();
    await editor.screenshot("log");

    // This time without a lens: the command finds the class at the cursor.
    await editor.openFile("working.py");
    await editor.goToCode(CALL);
    await editor.runCommand("ForwardLens: Profile this forward()");
    await editor.line(COSTLY).waitFor();
    await editor.screenshot("next-run");
  });
});

test("an interpreter without torch is named", { timeout: 10 * SLOW_MS }, async () => {
  const folder = temporaryFolder();
  try {
    const settings = { "forwardlens.interpreter": bareEnvironment(folder) };
    await withEditor("no-torch", { files: { "working.py": BUILT }, settings, trust: "granted" }, async (editor) => {
      const chosen = torchOnlyEnvironment(join(editor.workspace, ".venv"));
      await editor.openFile("working.py");
      await editor.pressProfile(FORWARD);
      const message = editor.notification(/torch/).filter({ hasText: folder });
      await message.getByRole("button", { name: "Show log" }).waitFor();
      await editor.progress().waitFor({ state: "detached" });
      await editor.screenshot("message");
      // There is no Python extension here, whose picker it would be.
      await message.getByRole("button", { name: "Choose interpreter" }).click();
      await editor.page.locator(".quick-input-widget", { hasText: "Python that has torch" }).waitFor();
      await editor.pickRow(/\.venv.*has torch/).waitFor();
      await editor.screenshot("choose");
      await editor.pickRow(/\.venv.*has torch/).click();
      await until(
        "the setting",
        async () => (await editor.settings())["forwardlens.interpreter"] === chosen || undefined,
      );
      await editor.interpreterChanged();
      await editor.pressProfile(FORWARD);
      await editor.line(COSTLY).waitFor();
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test("a server that dies is started again, and the next run works", { timeout: 10 * SLOW_MS }, async () => {
  const settings = { "forwardlens.interpreter": torchPython() };
  await withEditor("dead-server", { files: { "working.py": BUILT }, settings, trust: "granted" }, async (editor) => {
    const home = join(editor.workspace, "..");
    await editor.openFile("working.py");
    await editor.lensAbove(FORWARD, "Profile this forward()");
    const [first] = await serverProcesses(home, 1);
    process.kill(first as number, "SIGKILL");
    const [, second] = await serverProcesses(home, 2);
    assert.notEqual(second, first);
    await editor.pressProfile(FORWARD);
    await editor.line(COSTLY).waitFor();
    await editor.screenshot("next-run");
  });
});

function serverProcesses(home: string, count: number): Promise<number[]> {
  return until(`server number ${count}`, async () => {
    const found = [...(await logs(home)).matchAll(/The server is process (\d+)/g)].map(([, pid]) => Number(pid));
    return found.length < count ? undefined : found;
  });
}
