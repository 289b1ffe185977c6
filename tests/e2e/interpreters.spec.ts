/** The interpreter that the Python extension has selected, what helps if it is the wrong one, and what goes before it. */

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { SLOW_MS, withEditor } from "./editor.ts";
import { BUILT, COSTLY, FORWARD } from "./models.ts";
import { bareEnvironment, temporaryFolder, torchPython } from "./pythons.ts";

/** Only pyproject.toml knows that `make` is an entry point. */
const HIDDEN = BUILT.replace("def build", "def make").replace(/return (.*,\))\n$/, "return ($1) if True else None\n");

test("the interpreter of the Python extension is used, unless the project names one", {
  timeout: 10 * SLOW_MS,
}, async () => {
  const folder = temporaryFolder();
  const [bare, torch] = [bareEnvironment(folder), torchPython()];
  const configured = `[tool.forwardlens.entries.model]\nrun = "configured.py:make"\npython = ${JSON.stringify(torch)}\n`;
  const options = {
    files: {
      "model.py": BUILT,
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
    await editor.pressProfile(FORWARD);
    await editor.line(COSTLY).waitFor();
    await editor.progress().waitFor({ state: "detached" });
    await editor.languageStatus(/torch .* on cpu.*from pyproject\.toml.*Choose interpreter/);
    await editor.screenshot("configured");

    await editor.openFile("model.py");
    await editor.pressProfile(FORWARD);
    const message = editor.notification(/has no torch/).filter({ hasText: bare });
    await message.waitFor();
    await editor.screenshot("wrong");
    await message.getByRole("button", { name: "Choose interpreter" }).click();
    await editor.pickRow(torch).click();
    await editor.interpreterChanged();
    await editor.pressProfile(FORWARD);
    await editor.line(COSTLY).waitFor();
    await editor.languageStatus(/torch .* on cpu.*from Python extension/);
    await editor.screenshot("right");
  }).finally(() => rm(join(folder), { recursive: true, force: true }));
});
