/**
 * How long the editor's user waits for us: `node responsiveness.bench.ts [RUNS]` prints, as JSON, the milliseconds from
 * activation to the first lens in a file of 1,000 lines, and those of our work at a stretch while its user types. The
 * file is opened in an editor at rest, then in a new window as soon as it can be, while the editor is still starting.
 */

import { cpus } from "node:os";
import { join } from "node:path";
import { type Editor, logs, until, withEditor } from "./editor.ts";
import { torchPython } from "./pythons.ts";
import { type CpuProfile, type Stretch, stretches } from "./stretches.ts";

const KEYS = 120;

/** A small model that costs something, and as many lines of other modules as make it long. */
function longFile(lines: number): string {
  const head = `import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        for _ in range(20):
            x = torch.sin(x)
        return x


def build():
    return Net(), (torch.zeros(64, 64),)

`;
  const block = (n: number) => `
class Layer${n}(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.linear(x)) + x

`;
  const blocks = Math.ceil((lines - head.split("\n").length) / (block(0).split("\n").length - 1));
  return head + Array.from({ length: blocks }, (_, n) => block(n)).join("");
}

const FORWARD = /^\s*def forward\(self, x\)/;
const COSTLY = /x = torch\.sin\(x\).*%/;

interface Measured {
  /** In an editor at rest that has never had the extension. */
  readonly firstLens: number;
  /** In a window that is still starting. */
  readonly reopened: number;
  readonly work: readonly Stretch[];
}

async function measure(editor: Editor, home: string): Promise<Measured> {
  await rest();
  await editor.openFile("long.py");
  const [firstLens] = await lensTimes(home, 1);
  await editor.page.reload();
  await editor.page.locator(".monaco-workbench").waitFor();
  await editor.openFile("long.py");
  const reopened = (await lensTimes(home, 2)).find((ms) => ms !== firstLens) ?? firstLens;
  // With results on the screen, which is when there is most to do for a key.
  await editor.pressProfile(FORWARD);
  await editor.line(COSTLY).waitFor();
  await editor.progress().waitFor({ state: "detached" });
  await editor.goToCode(/^def build/);
  await editor.page.keyboard.press("Home");
  await editor.runCommand("Probe: Start");
  await until("the probe", () => editor.fileText("probe-started").then(always, never));
  await editor.page.keyboard.type("# A comment that somebody types into the file. ".repeat(3).slice(0, KEYS), {
    delay: 60,
  });
  await editor.runCommand("Probe: Stop");
  const text = await until("the profile", () => editor.fileText("probe.cpuprofile").then((t) => t || undefined, never));
  const profile = JSON.parse(text) as CpuProfile;
  return {
    firstLens: firstLens as number,
    reopened: reopened as number,
    work: stretches(profile, (url) => /forwardlens\.forwardlens-.*main\.cjs$/.test(url)),
  };
}

/** What each extension host said of its first lens, once there are as many. */
function lensTimes(home: string, hosts: number): Promise<number[]> {
  return until(`the first lens of ${hosts} windows`, async () => {
    const found = [...(await logs(home)).matchAll(/First lens (\d+) ms/g)].map(([, ms]) => Number(ms));
    return found.length < hosts ? undefined : found;
  });
}

/** Returns when the machine's processors have been nine tenths idle for half a second. */
async function rest(): Promise<void> {
  const spent = () => cpus().reduce((sum, { times }) => sum + times.user + times.sys + times.nice, 0);
  let before = { at: performance.now(), spent: spent() };
  await until("an editor at rest", async () => {
    const now = { at: performance.now(), spent: spent() };
    if (now.at - before.at < 500) {
      return undefined;
    }
    const share = (now.spent - before.spent) / (now.at - before.at) / cpus().length;
    before = now;
    return share < 0.1 || undefined;
  });
}

const always = () => true;
const never = () => undefined;

const runs = Number(process.argv[2] ?? 1);
const measured: Measured[] = [];
for (let run = 0; run < runs; run += 1) {
  const options = {
    files: { "long.py": longFile(1000) },
    settings: { "forwardlens.interpreter": torchPython() },
    extensions: ["forwardlens-tests.probe"],
    trust: "granted",
  } as const;
  await withEditor("responsiveness", options, async (editor) => {
    measured.push(await measure(editor, join(editor.workspace, "..")));
  });
}
const work = measured.flatMap((each) => each.work.map(({ worked }) => worked)).sort((a, b) => a - b);
const longest = (what: keyof Stretch) => measured.map((each) => Math.max(...each.work.map((stretch) => stretch[what])));
console.log(
  JSON.stringify({
    firstLens: measured.map((each) => each.firstLens),
    reopened: measured.map((each) => each.reopened),
    lines: longFile(1000).split("\n").length,
    keys: KEYS * runs,
    stretches: work.length,
    median: work[Math.floor(work.length / 2)],
    p99: work[Math.floor(work.length * 0.99)],
    worked: longest("worked"),
    lasted: longest("lasted"),
  }),
);
