import assert from "node:assert/strict";
import { access, readdir, readFile } from "node:fs/promises";
import { test } from "node:test";

const ROOT = new URL("../../", import.meta.url);

async function text(path: string): Promise<string> {
  return readFile(new URL(path, ROOT), "utf8");
}

const manifest = JSON.parse(await text("package.json"));
const commandIds: string[] = manifest.contributes.commands.map(({ command }: { command: string }) => command);

async function sources(): Promise<string> {
  const names = await readdir(new URL("extension/src/", ROOT));
  return (await Promise.all(names.map((name) => text(`extension/src/${name}`)))).join("\n");
}

test("the extension and the server have one version", async () => {
  const version = /__version__ = "(.+)"/.exec(await text("server/forwardlens/__init__.py"))?.[1];
  assert.equal(manifest.version, version);
});

test("every contributed command is registered, has the category and a title", async () => {
  const code = await sources();
  for (const { command, category, title } of manifest.contributes.commands) {
    assert.ok(code.includes(`"${command}"`), command);
    assert.equal(category, "ForwardLens");
    assert.ok(title.length > 0);
  }
});

test("menus name contributed commands only", () => {
  for (const { command } of manifest.contributes.menus.commandPalette) {
    assert.ok(commandIds.includes(command), command);
  }
});

test("settings that decide what runs are restricted until the workspace is trusted", () => {
  const restricted: string[] = manifest.capabilities.untrustedWorkspaces.restrictedConfigurations;
  for (const name of ["interpreter", "serverPython", "entry", "profileOnSave"]) {
    assert.ok(restricted.includes(`forwardlens.${name}`), name);
  }
});

test("every setting has a default, a scope and a description", () => {
  for (const [name, setting] of Object.entries<Record<string, unknown>>(
    manifest.contributes.configuration.properties,
  )) {
    assert.ok("default" in setting && "scope" in setting, name);
    assert.ok("description" in setting || "markdownDescription" in setting, name);
  }
});

test("the settings are those that the server reads, and the one that decides how it is started", async () => {
  const reader = await text("server/forwardlens/lsp/client.py");
  const read = [...reader.matchAll(/=table\.\w+\("(\w+)"/g)].map(([, name]) => name);
  const contributed = Object.keys(manifest.contributes.configuration.properties).map((name) => name.split(".")[1]);
  assert.deepEqual(contributed.sort(), [...read, "serverPython"].sort());
});

test("the walkthrough is short, and its pages and pictures are there", async () => {
  const [walkthrough, ...more] = manifest.contributes.walkthroughs;
  assert.deepEqual(more, []);
  assert.ok(walkthrough.steps.length <= 5);
  for (const { media } of walkthrough.steps) {
    const page = await text(media.markdown);
    const picture = /!\[.+\]\((.+\.png)\)/.exec(page)?.[1];
    assert.ok(picture, media.markdown);
    await access(new URL(picture, new URL(media.markdown, ROOT)));
  }
});

test("settings and commands are described in the documentation", async () => {
  const page = await text("docs/editors/vscode.md");
  for (const name of Object.keys(manifest.contributes.configuration.properties)) {
    assert.ok(page.includes(`\`${name}\``), name);
  }
  for (const { title } of manifest.contributes.commands) {
    assert.ok(page.includes(title), title);
  }
});

test("nothing else has to be installed, and nothing else delays the start", () => {
  assert.equal(manifest.extensionDependencies, undefined);
  assert.equal(manifest.dependencies, undefined);
});

test("the lock file names no registry", async () => {
  assert.ok(!(await text("package-lock.json")).includes('"resolved"'));
});
