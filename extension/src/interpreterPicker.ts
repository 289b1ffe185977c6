/** Choosing the Python that runs the user's code. */

import { execFile } from "node:child_process";
import { realpath } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { ConfigurationTarget, commands, type QuickPickItem, Uri, window, workspace } from "vscode";
import { folderOf } from "./folders.ts";
import { describePython, exists, onPath, PYTHON_FACTS, pathWithin, venvPython } from "./interpreter.ts";

const ENVIRONMENTS = [".venv", "venv", "env", ".env"];
const MOST_ON_PATH = 6;
const PATIENCE_MS = 5_000;

interface Row extends QuickPickItem {
  readonly choose: () => Promise<void>;
}

/**
 * For the folder of `uri`, else of the active file. The Python extension's own picker where there is one and our
 * setting does not overrule what it says.
 */
export async function pickInterpreter(uri: Uri | undefined): Promise<void> {
  const resource = uri ?? window.activeTextEditor?.document.uri ?? workspace.workspaceFolders?.[0]?.uri;
  const picker = await foreignPicker();
  if (picker !== undefined && setting(resource) === "") {
    await commands.executeCommand(picker);
    return;
  }
  const row = await window.showQuickPick(rows(resource, picker), {
    title: `ForwardLens: Python that has torch${resource ? `, for ${folderOf(resource).name}` : ""}`,
    placeHolder: "Your code runs in it; nothing is installed there",
    matchOnDescription: true,
  });
  await row?.choose();
}

async function foreignPicker(): Promise<string | undefined> {
  const known = await commands.getCommands(true);
  return ["python-envs.set", "python.setInterpreter"].find((command) => known.includes(command));
}

function setting(resource: Uri | undefined): string {
  return workspace.getConfiguration("forwardlens", resource ?? null).get<string>("interpreter", "");
}

async function rows(resource: Uri | undefined, picker: string | undefined): Promise<Row[]> {
  const folder = resource && folderOf(resource).uri.fsPath;
  const inFolder = folder === undefined ? [] : ENVIRONMENTS.map((name) => venvPython(join(folder, name)));
  const there = await Promise.all(inFolder.map(exists));
  const found = [
    ...inFolder.filter((_path, index) => there[index]),
    ...(await distinct(await onPath(["python3", "python"]))).slice(0, MOST_ON_PATH),
  ];
  const pythons = await Promise.all(found.map((path) => pythonRow(path, folder, resource)));
  return [
    ...pythons.filter(hasTorch),
    ...pythons.filter((row) => !hasTorch(row)),
    ...(picker === undefined ? [] : [followRow(resource, picker)]),
    { label: "$(folder-opened) Browse…", description: "choose a file", choose: () => browse(resource) },
  ];
}

function hasTorch({ description }: Row): boolean {
  return description?.endsWith("has torch") === true;
}

/** Without those that another folder of PATH holds by way of a link to it. */
async function distinct(paths: readonly string[]): Promise<string[]> {
  const places = await Promise.all(paths.map(async (path) => join(await realpath(dirname(path)), basename(path))));
  return paths.filter((_path, index) => places.indexOf(places[index] ?? "") === index);
}

async function pythonRow(path: string, folder: string | undefined, resource: Uri | undefined): Promise<Row> {
  const inside = folder === undefined ? undefined : pathWithin(folder, path);
  return { label: inside ?? path, description: await facts(path), choose: () => use(path, resource) };
}

function followRow(resource: Uri | undefined, picker: string): Row {
  return {
    label: "$(sync) Follow the Python extension",
    description: "clears the setting forwardlens.interpreter",
    choose: async () => {
      await use(undefined, resource);
      await commands.executeCommand(picker);
    },
  };
}

/** What a Python has, without importing torch, which takes seconds. */
async function facts(path: string): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(path, ["-c", PYTHON_FACTS], {
      timeout: PATIENCE_MS,
      windowsHide: true,
    });
    return describePython(stdout);
  } catch {
    return "does not run";
  }
}

async function browse(resource: Uri | undefined): Promise<void> {
  const picked = await window.showOpenDialog({ title: "Python that has torch", openLabel: "Use" });
  if (picked?.[0] !== undefined) {
    await use(picked[0].fsPath, resource);
  }
}

/** Into the settings of the folder where there are several, of the workspace, or of the user without one. */
async function use(path: string | undefined, resource: Uri | undefined): Promise<void> {
  const folders = workspace.workspaceFolders?.length ?? 0;
  const target =
    folders === 0
      ? ConfigurationTarget.Global
      : folders === 1
        ? ConfigurationTarget.Workspace
        : ConfigurationTarget.WorkspaceFolder;
  await workspace.getConfiguration("forwardlens", resource ?? null).update("interpreter", path, target);
}

/** Commands can be called by anyone with anything. */
export function asUri(argument: unknown): Uri | undefined {
  return typeof argument === "string" ? Uri.parse(argument) : undefined;
}
