/** A real editor for one test: code-server with the built VSIX, a browser, and a workspace of its own. */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { accessSync, existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type Browser, chromium, type FrameLocator, type Locator, type Page } from "playwright-core";

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const CODE_SERVER = join(ROOT, ".cache", "code-server", "node_modules", "code-server", "out", "node", "entry.js");
const SCREENSHOTS = join(ROOT, "artifacts", "e2e");

/** Long enough for a loaded machine; nothing waits this long when all is well. */
const PALETTE_MS = 3_000;
export const SLOW_MS = 60_000;

const SETTINGS = {
  "chat.disableAIFeatures": true,
  "editor.minimap.enabled": false,
  "editor.stickyScroll.enabled": false,
  "extensions.autoCheckUpdates": false,
  "extensions.autoUpdate": false,
  "files.autoSave": "off",
  "git.enabled": false,
  "security.workspace.trust.banner": "never",
  "security.workspace.trust.startupPrompt": "always",
  "telemetry.telemetryLevel": "off",
  "update.mode": "none",
  "window.commandCenter": false,
  "workbench.colorTheme": "Default Dark Modern",
  "workbench.enableExperiments": false,
  "workbench.hover.delay": 60_000,
  "workbench.reduceMotion": "on",
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "workbench.welcomePage.walkthroughs.openOnInstall": false,
};

export interface Options {
  /** Files of the workspace by relative path; `workspaceFrom` is copied first. */
  readonly files?: Readonly<Record<string, string>>;
  readonly workspaceFrom?: string;
  /** Names of folders of `files` that are opened together, each a root of its own. */
  readonly roots?: readonly string[];
  /** Stand-ins under tests/e2e/extensions that are installed beside the VSIX. */
  readonly extensions?: readonly string[];
  /** The PATH of the editor, if not the one of the tests. */
  readonly path?: string;
  readonly settings?: Readonly<Record<string, unknown>>;
  /** `ask`: as a user meets a new folder. `granted`: trust is no matter of this test. */
  readonly trust: "ask" | "granted";
}

/** Opens an editor, hands it to `use`, and leaves nothing behind but a screenshot if `use` fails. */
export async function withEditor(
  name: string,
  options: Options,
  use: (editor: Editor) => Promise<void>,
): Promise<void> {
  const home = await mkdtemp(join(tmpdir(), "forwardlens-e2e-"));
  const workspace = join(home, "workspace");
  await fillWorkspace(workspace, options);
  await writeSettings(home, options);
  const opened =
    options.roots === undefined ? { folder: workspace } : { workspace: await listRoots(home, options.roots) };
  const server = await startCodeServer(home, await installedExtensions(options.extensions ?? []), options.path);
  let browser: Browser | undefined;
  try {
    browser = await startBrowser();
    const editor = await Editor.open(browser, server.address, workspace, name, opened);
    try {
      await use(editor);
    } catch (problem) {
      await editor.screenshot("failed");
      throw new Error(`${name} failed; the editor's logs:\n${await logs(home)}`, { cause: problem });
    }
  } finally {
    await browser?.close();
    await server.stop();
    await rm(home, { recursive: true, force: true, maxRetries: 5 });
  }
}

export class Editor {
  readonly page: Page;
  readonly workspace: string;
  readonly #name: string;

  private constructor(page: Page, workspace: string, name: string) {
    this.page = page;
    this.workspace = workspace;
    this.#name = name;
  }

  static async open(
    browser: Browser,
    address: string,
    workspace: string,
    name: string,
    opened: Readonly<Record<string, string>>,
  ): Promise<Editor> {
    const page = await browser.newPage({ viewport: { width: 1400, height: 860 } });
    page.setDefaultTimeout(SLOW_MS);
    await page.goto(`${address}/?${new URLSearchParams(opened)}`);
    await page.locator(".monaco-workbench").waitFor();
    return new Editor(page, workspace, name);
  }

  async screenshot(what: string): Promise<void> {
    await mkdir(SCREENSHOTS, { recursive: true });
    await this.page.screenshot({ path: join(SCREENSHOTS, `${this.#name}-${what}.png`), animations: "disabled" });
  }

  /** Answers the question that a new folder is opened with. */
  async answerTrust(trusted: boolean): Promise<void> {
    await this.page.getByRole("button", { name: trusted ? /^Yes, I trust/ : /^No, I don't trust/ }).click();
    await this.page.locator(".monaco-dialog-box").waitFor({ state: "detached" });
  }

  async openFile(name: string): Promise<void> {
    await this.quickInput("Control+p", name);
    await this.page.locator(".quick-input-list .monaco-list-row.focused", { hasText: name }).waitFor();
    await this.page.keyboard.press("Enter");
    await this.page.locator(".tab.active", { hasText: name }).waitFor();
    await this.page.locator(".view-line").filter({ visible: true }).first().waitFor();
  }

  /** Puts the cursor on the first line of the open file that looks like `code`. */
  async goToCode(code: RegExp): Promise<void> {
    // A page beside the code has a tab of its own, in another group.
    const tab = this.page.locator(".tab.active:not([data-resource-name^='webview-'])");
    const name = await tab.getAttribute("data-resource-name");
    const lines = (await this.fileText(name ?? "")).split("\n");
    await this.quickInput("Control+g", `:${1 + lines.findIndex((line) => code.test(line))}`);
    await this.page.keyboard.press("Enter");
    await this.page.locator(".quick-input-widget").waitFor({ state: "hidden" });
    await this.line(code).first().waitFor();
  }

  /** Rows that the command palette offers for `text`. */
  async paletteRows(text: string): Promise<string[]> {
    await this.quickInput("F1", `>${text}`);
    await this.page.locator(".quick-input-list .monaco-list-row").first().waitFor();
    const rows = await this.page.locator(".quick-input-list .monaco-list-row .label-name").allInnerTexts();
    await this.page.keyboard.press("Escape");
    return rows.map(plain);
  }

  async runCommand(title: string): Promise<void> {
    const row = this.page.locator(".quick-input-list .monaco-list-row.focused", { hasText: title });
    // The palette keeps the commands that there were when it was opened, and some come with the extension's start.
    await until(`the command ${title}`, async () => {
      await this.quickInput("F1", `>${title}`);
      const isThere = await succeeds(row.waitFor({ timeout: PALETTE_MS }));
      await this.page.keyboard.press(isThere ? "Enter" : "Escape");
      return isThere;
    });
  }

  private async quickInput(shortcut: string, text: string): Promise<void> {
    const input = this.page.locator(".quick-input-widget input.input");
    // A key that comes while the editor is still drawing may be lost.
    await until(`the input for ${text}`, async () => {
      await this.page.keyboard.press(shortcut);
      return succeeds(input.fill(text, { timeout: PALETTE_MS }));
    });
  }

  /** A visible line of code. On the screen its spaces are no-break spaces. */
  line(code: RegExp): Locator {
    const onScreen = new RegExp(code.source.replaceAll(" ", "\\s"));
    return this.page.locator(".editor-instance .view-line", { hasText: onScreen });
  }

  /** The lens that stands directly above a line of code. Lenses move the lines below them when they appear. */
  async lensAbove(code: RegExp, title: string | RegExp): Promise<Locator> {
    const lenses = this.page.locator(".codelens-decoration a", { hasText: title }).filter({ visible: true });
    return until(`a lens ${title} above ${code}`, async () => {
      const line = await this.line(code).first().boundingBox();
      const boxes = await Promise.all((await lenses.all()).map((lens) => lens.boundingBox()));
      const index = boxes.findIndex((box) => box && line && box.y < line.y && line.y - box.y < 2 * line.height);
      return index < 0 ? undefined : lenses.nth(index);
    });
  }

  async pressProfile(forward: RegExp): Promise<void> {
    await (await this.lensAbove(forward, "Profile this forward()")).click();
  }

  /** Waits until a change of interpreter has reached the extension: a run before that would take the former one. */
  async interpreterChanged(): Promise<void> {
    await this.languageStatus(/found when you profile/);
    await this.restMouse();
  }

  /** A row of the list that is open. */
  pickRow(text: string | RegExp): Locator {
    return this.page.locator(".quick-input-list .monaco-list-row", { hasText: text });
  }

  /** What the workspace's own settings say. */
  async settings(): Promise<Record<string, unknown>> {
    const path = join(this.workspace, ".vscode", "settings.json");
    return existsSync(path) ? JSON.parse((await readFile(path, "utf8")) || "{}") : {};
  }

  notification(text: string | RegExp): Locator {
    return this.page.locator(".notification-toast", { hasText: text });
  }

  /** The notification of a run in progress. */
  progress(): Locator {
    return this.notification("ForwardLens").filter({ has: this.page.getByRole("button", { name: "Cancel" }) });
  }

  /** Waits until the language status of the active file says something; the mouse then rests on it. */
  async languageStatus(text: RegExp): Promise<void> {
    const item = this.page.locator("[id='status.languageStatus']");
    await item.waitFor();
    const rows = { has: this.page.locator(".hover-language-status"), hasText: text };
    const hover = this.page.locator(".monaco-hover", rows);
    await until(`the language status ${text}`, async () => {
      await this.page.mouse.move(700, 20);
      await item.hover();
      return succeeds(hover.first().waitFor({ timeout: 2_000 }));
    });
  }

  /** Takes the mouse to where nothing opens under it. */
  async restMouse(): Promise<void> {
    const hover = this.page.locator(".monaco-hover").filter({ visible: true });
    await until("the hover to close", async () => {
      await this.page.mouse.move(1, 1);
      const isClosed = await succeeds(hover.waitFor({ state: "detached", timeout: PALETTE_MS }));
      if (!isClosed) {
        // One that was drawn anew just as the mouse left does not know of it: enter it, to leave it once more.
        await succeeds(hover.first().hover({ timeout: PALETTE_MS }));
      }
      return isClosed;
    });
  }

  /** The marker on the exact expression. */
  squiggle(): Locator {
    return this.page.locator(".editor-instance").locator(".squiggly-warning, .squiggly-info, .squiggly-hint");
  }

  problem(text: string | RegExp): Locator {
    return this.page.locator(".markers-panel .monaco-list-row", { hasText: text });
  }

  /** Goes to what a problem is about. The selection comes later than the click, and would close a menu. */
  async openProblem(problem: Locator): Promise<void> {
    await problem.dblclick();
    await this.page.locator(".statusbar-item", { hasText: /\d+ selected/ }).waitFor();
  }

  async showProblems(): Promise<void> {
    await this.runCommand("Problems: Focus on Problems View");
    await this.page.locator(".markers-panel").waitFor();
  }

  /** The content of the one webview that is open. */
  webview(): FrameLocator {
    return this.page.frameLocator("iframe.webview.ready").frameLocator("#active-frame");
  }

  async closeTab(name: string): Promise<void> {
    const tab = this.page.locator(".tab", { hasText: name });
    await tab.click({ button: "middle" });
    await tab.waitFor({ state: "detached" });
  }

  outputLine(text: RegExp): Locator {
    return this.page.locator(".panel .view-line", { hasText: text });
  }

  /** Trusts the folder from the message that refused to run something. */
  async trustFromMessage(): Promise<void> {
    await this.page.locator(".notification-toast").getByRole("button", { name: "Manage Workspace Trust" }).click();
    await this.page.locator(".workspace-trust-editor").getByRole("button", { name: "Trust", exact: true }).click();
    await this.page.locator(".statusbar", { hasText: "Restricted Mode" }).waitFor({ state: "detached" });
    await this.page.keyboard.press("Control+w");
  }

  /** Opens the quick fixes at the cursor. */
  async openFixes(): Promise<void> {
    // A hover that opens under a resting mouse would close the menu.
    await this.page.mouse.move(1, 1);
    await this.page.keyboard.press("Control+1");
    await this.page.keyboard.press("Control+.");
  }

  /** Opens the quick fixes at the cursor and applies the one with this title. */
  async applyFix(title: string | RegExp): Promise<void> {
    await this.openFixes();
    const row = this.page.locator(".action-widget .monaco-list-row", { hasText: title });
    await row.first().waitFor();
    await this.screenshot("quick-fix");
    await row.first().click();
    await row.first().waitFor({ state: "hidden" });
  }

  async save(): Promise<void> {
    await this.page.locator(".tab.active.dirty").waitFor();
    await this.page.keyboard.press("Control+s");
    await this.page.locator(".tab.active.dirty").waitFor({ state: "detached" });
  }

  async fileText(name: string): Promise<string> {
    return readFile(join(this.workspace, name), "utf8");
  }
}

/** What the extension and the editor's part that runs it have logged. */
export async function logs(home: string): Promise<string> {
  const files = await readdir(join(home, "user", "logs"), { recursive: true });
  const telling = files.filter((file) => /(ForwardLens|remoteexthost)\.log$/.test(file));
  const texts = telling.map(async (file) => `--- ${file}\n${await readFile(join(home, "user", "logs", file), "utf8")}`);
  return (await Promise.all(texts)).join("\n");
}

/** The first answer of `look`, which is asked again and again: for what no locator can wait for. */
export async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  const deadline = Date.now() + SLOW_MS;
  while (Date.now() < deadline) {
    const found = await look();
    if (found !== undefined) {
      return found;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`waited in vain for ${what}`);
}

/** For `until`: whether a step of it went through. */
function succeeds(step: Promise<unknown>): Promise<true | undefined> {
  return step.then(
    () => true as const,
    () => undefined,
  );
}

/** The editor writes no-break spaces where the text has spaces. */
function plain(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

async function fillWorkspace(workspace: string, { files = {}, workspaceFrom }: Options): Promise<void> {
  await mkdir(workspace, { recursive: true });
  if (workspaceFrom !== undefined) {
    await cp(workspaceFrom, workspace, { recursive: true, filter: (path) => !path.includes("__pycache__") });
  }
  for (const [name, text] of Object.entries(files)) {
    const path = join(workspace, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text, { mode: text.startsWith("#!") ? 0o755 : 0o644 });
  }
}

/** Twice: settings of a machine, such as an interpreter, are not read from the user's but from the machine's. */
async function writeSettings(home: string, { settings = {}, trust }: Options): Promise<void> {
  const all = JSON.stringify(
    { ...SETTINGS, ...settings, "security.workspace.trust.enabled": trust === "ask" },
    null,
    2,
  );
  for (const scope of ["User", "Machine"]) {
    await mkdir(join(home, "user", scope), { recursive: true });
    await writeFile(join(home, "user", scope, "settings.json"), all);
  }
}

/** The file that names the roots of a workspace. */
async function listRoots(home: string, roots: readonly string[]): Promise<string> {
  const path = join(home, "workspace", "all.code-workspace");
  await writeFile(path, JSON.stringify({ folders: roots.map((root) => ({ path: root })) }));
  return path;
}

/** A folder with the built VSIX and the stand-ins installed; kept for as long as the VSIX stays the same. */
async function installedExtensions(standIns: readonly string[]): Promise<string> {
  const vsix = await findVsix();
  const digest = createHash("sha256")
    .update(await readFile(vsix))
    .digest("hex")
    .slice(0, 16);
  const all = join(ROOT, ".cache", "e2e", digest);
  const folder = join(all, ["forwardlens", ...standIns].join("+"));
  if (!existsSync(folder)) {
    if (!existsSync(all)) {
      await rm(dirname(all), { recursive: true, force: true });
    }
    const partial = `${folder}-${process.pid}`;
    await mkdir(partial, { recursive: true });
    const packed = await Promise.all(standIns.map((name) => pack(name, partial)));
    const install = [vsix, ...packed].flatMap((path) => ["--install-extension", path]);
    const data = ["--extensions-dir", partial, "--user-data-dir", `${partial}-data`];
    await promisify(execFile)(process.execPath, [CODE_SERVER, ...install, ...data], {
      env: environment(`${partial}-data`),
    });
    await rename(partial, folder);
    await rm(`${partial}-data`, { recursive: true, force: true });
  }
  return folder;
}

/** A stand-in as a VSIX. */
async function pack(name: string, folder: string): Promise<string> {
  const out = join(folder, `${name}.vsix`);
  const vsce = join(ROOT, "node_modules", "@vscode", "vsce", "vsce");
  const options = ["--no-dependencies", "--allow-missing-repository", "--skip-license", "--out", out];
  const cwd = join(ROOT, "tests", "e2e", "extensions", name);
  await promisify(execFile)(process.execPath, [vsce, "package", ...options], { cwd });
  return out;
}

async function findVsix(): Promise<string> {
  if (process.env.FORWARDLENS_VSIX !== undefined) {
    return process.env.FORWARDLENS_VSIX;
  }
  const folder = join(ROOT, "dist");
  const names = existsSync(folder) ? await readdir(folder) : [];
  const vsix = names.find((name) => name.endsWith(`-${process.platform}-${process.arch}.vsix`));
  if (vsix === undefined) {
    throw new Error("no VSIX in dist/: run python scripts/vsix.py first");
  }
  return join(folder, vsix);
}

interface CodeServer {
  readonly address: string;
  stop(): Promise<void>;
}

async function startCodeServer(home: string, extensions: string, path: string | undefined): Promise<CodeServer> {
  const options = ["--auth", "none", "--bind-addr", "127.0.0.1:0", "--disable-telemetry", "--disable-update-check"];
  const folders = ["--user-data-dir", join(home, "user"), "--extensions-dir", extensions];
  const server = spawn(process.execPath, [CODE_SERVER, ...options, ...folders, "--config", join(home, "config.yaml")], {
    cwd: home,
    // A group of its own, so that its child processes can be ended with it.
    detached: true,
    env: { ...environment(home), ...(path === undefined ? {} : { PATH: path }) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const stop = () => endGroup(server);
  try {
    return { address: await listeningAddress(server), stop };
  } catch (problem) {
    await stop();
    throw problem;
  }
}

/**
 * Nothing of the user's own code-server, and nothing of an editor that these tests were started from. With one thread
 * torch's shares stay the same on a busy machine, where several would wait for each other.
 */
function environment(home: string): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(VSCODE_|CODE_SERVER|PASSWORD$|PORT$|NODE_)/.test(name),
  );
  const own = { XDG_CONFIG_HOME: join(home, "config"), XDG_DATA_HOME: join(home, "data"), OMP_NUM_THREADS: "1" };
  return { ...Object.fromEntries(kept), ...own };
}

async function listeningAddress(server: ChildProcess): Promise<string> {
  const said: string[] = [];
  for (const stream of [server.stdout, server.stderr]) {
    stream?.on("data", (data: Buffer) => said.push(data.toString()));
  }
  if (server.stdout) {
    for await (const line of createInterface({ input: server.stdout })) {
      const address = /HTTP server listening on (http:\/\/[\d.:]+)/.exec(line)?.[1];
      if (address !== undefined) {
        return address;
      }
    }
  }
  throw new Error(`code-server did not start:\n${said.join("")}`);
}

async function endGroup(leader: ChildProcess): Promise<void> {
  const gone = new Promise<void>((resolve) => {
    if (leader.exitCode !== null || leader.signalCode !== null) {
      resolve();
    }
    leader.once("exit", () => resolve());
  });
  signalGroup(leader, "SIGTERM");
  const impatient = setTimeout(() => signalGroup(leader, "SIGKILL"), 5_000);
  await gone;
  clearTimeout(impatient);
  signalGroup(leader, "SIGKILL");
}

function signalGroup(leader: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (leader.pid !== undefined) {
      process.kill(-leader.pid, signal);
    }
  } catch {
    // Nobody of the group is left.
  }
}

async function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: findChromium(),
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
    ],
  });
}

function findChromium(): string {
  const names = ["chromium", "chromium-browser", "google-chrome"];
  const folders = (process.env.PATH ?? "").split(delimiter);
  const found = folders.flatMap((folder) => names.map((name) => join(folder, name))).find(isThere);
  if (found === undefined) {
    throw new Error(`none of ${names.join(", ")} is on PATH`);
  }
  return found;
}

function isThere(path: string): boolean {
  try {
    accessSync(path);
    return true;
  } catch {
    return false;
  }
}
