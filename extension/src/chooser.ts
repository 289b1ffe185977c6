/** What profiling a file runs: settled without a question where that is clear, else chosen once and remembered. */

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import parseArguments from "string-argv";
import { type Memento, type QuickPickItem, QuickPickItemKind, Uri, window, workspace } from "vscode";
import { ExecuteCommandRequest, type LanguageClient } from "vscode-languageclient/node";
import { type Choice, Choices, isThere } from "./choice.ts";
import { type Entry, type EntryKind, likeliest, type ProfileRequest } from "./entries.ts";
import { folderOf } from "./folders.ts";
import { type Launch, type LaunchConfiguration, pythonLaunches, resolveLaunch } from "./launch.ts";
import type { Place } from "./variables.ts";

type Pick = Choice | { readonly kind: "type" } | { readonly kind: "setting" };

interface Row extends QuickPickItem {
  readonly pick?: Pick;
  readonly asksArguments?: boolean;
  readonly problem?: string;
}

export class Chooser {
  readonly #memory: Memento;

  constructor(memory: Memento) {
    this.#memory = memory;
  }

  /** The request with what to run; undefined if the user was asked and chose nothing. */
  async settle(client: LanguageClient, request: ProfileRequest): Promise<ProfileRequest | undefined> {
    if (request.entry !== undefined) {
      return request;
    }
    const options = await this.#options(client, request);
    const kept = options.choices.find(request.uri, (choice) => isThere(choice, options.candidates, options.names));
    if (kept !== undefined) {
      return this.#started(client, request, options, kept);
    }
    const likely = options.setting === "" ? likeliest(options.candidates) : { kind: "server" as const };
    if (likely.kind === "ask") {
      return this.#ask(client, request, options);
    }
    return likely.kind === "use" ? { ...request, entry: likely.entry } : request;
  }

  /** Asks in any case, and remembers the answer for the next runs. */
  async choose(client: LanguageClient, request: ProfileRequest): Promise<void> {
    await this.#ask(client, request, await this.#options(client, request));
  }

  async #options(client: LanguageClient, request: ProfileRequest): Promise<Options> {
    const uri = Uri.parse(request.uri);
    const folder = folderOf(uri);
    const { entry: _, ...about } = request;
    const command = { command: "forwardlens.entries", arguments: [about] };
    const launches = pythonLaunches(workspace.getConfiguration("launch", folder.uri).get("configurations"));
    return {
      candidates: (await client.sendRequest(ExecuteCommandRequest.type, command)) as readonly Entry[],
      launches,
      names: launches.map(({ name }) => name),
      setting: workspace.getConfiguration("forwardlens", uri).get<string>("entry", ""),
      choices: new Choices(this.#memory, folder.uri.toString()),
      place: placeOf(uri),
    };
  }

  async #ask(client: LanguageClient, request: ProfileRequest, options: Options): Promise<ProfileRequest | undefined> {
    const row = await window.showQuickPick(rows(options, request.uri), {
      title: "ForwardLens: choose what to run",
      placeHolder: "The choice is remembered for this file",
      matchOnDescription: true,
    });
    if (row?.problem !== undefined) {
      void window.showWarningMessage(row.problem);
      return undefined;
    }
    const pick = row?.pick;
    if (pick?.kind === "setting") {
      await options.choices.forget(request.uri);
      return request;
    }
    const choice = await completed(pick, row?.asksArguments === true);
    if (choice === undefined) {
      return undefined;
    }
    await options.choices.remember(request.uri, choice);
    return this.#started(client, request, options, choice);
  }

  async #started(
    client: LanguageClient,
    request: ProfileRequest,
    options: Options,
    choice: Choice,
  ): Promise<ProfileRequest | undefined> {
    if (choice.kind === "entry") {
      const { entry, arguments: args } = choice;
      return { ...request, entry, ...(args === undefined ? {} : { arguments: args }) };
    }
    const configuration = options.launches.find(({ name }) => name === choice.name);
    const launch = configuration && (await resolved(configuration, options.place));
    if (launch === undefined || "problem" in launch) {
      void window.showWarningMessage(launch?.problem ?? `launch.json has no “${choice.name}” any more.`);
      return this.#ask(client, request, options);
    }
    return { ...request, ...launch.start };
  }
}

interface Options {
  readonly candidates: readonly Entry[];
  readonly launches: readonly LaunchConfiguration[];
  readonly names: readonly string[];
  readonly setting: string;
  readonly choices: Choices;
  readonly place: Place;
}

const SECTIONS: readonly { readonly title: string; readonly icon: string; readonly kinds: readonly EntryKind[] }[] = [
  { title: "in this file", icon: "symbol-function", kinds: ["file"] },
  { title: "in pyproject.toml", icon: "settings-gear", kinds: ["configured"] },
  { title: "functions that build it", icon: "symbol-function", kinds: ["workspace"] },
  { title: "scripts that reach it", icon: "play", kinds: ["script"] },
  { title: "tests that reach it", icon: "beaker", kinds: ["test"] },
];

async function rows(options: Options, uri: string): Promise<Row[]> {
  const kept = options.choices.find(uri, () => true);
  const isKept = (choice: Choice) => JSON.stringify(strip(choice)) === JSON.stringify(kept && strip(kept));
  const entry = ({ entry, kind, line }: Entry, icon: string): Row => {
    const pick: Choice = { kind: "entry", entry };
    const at = line === undefined ? [] : [`line ${line}`];
    const description = [...at, ...(isKept(pick) ? ["chosen"] : [])].join(" · ");
    return { label: `$(${icon}) ${entry}`, description, pick, asksArguments: kind === "script" || kind === "self" };
  };
  const sections = SECTIONS.flatMap(({ title, icon, kinds }) =>
    section(
      title,
      options.candidates.filter(({ kind }) => kinds.includes(kind)).map((candidate) => entry(candidate, icon)),
    ),
  );
  const launches = await Promise.all(
    options.launches.map(async (configuration): Promise<Row> => {
      const launch = await resolved(configuration, options.place);
      const pick: Choice = { kind: "launch", name: configuration.name };
      const chosen = isKept(pick) ? { description: "chosen" } : {};
      const label = `$(debug-alt) ${configuration.name}`;
      return "problem" in launch
        ? { label, ...chosen, detail: launch.problem, problem: launch.problem }
        : { label, ...chosen, detail: [launch.start.entry, ...(launch.start.arguments ?? [])].join(" "), pick };
    }),
  );
  const itself = options.candidates.filter(({ kind }) => kind === "self");
  const other: Row[] = [
    ...itself.map((candidate) => ({ ...entry(candidate, "run"), label: "$(run) Run this file" })),
    ...(options.setting === ""
      ? []
      : [{ label: "$(gear) Use the setting forwardlens.entry", description: options.setting, pick: SETTING }]),
    { label: "$(edit) Enter what to run…", pick: { kind: "type" } },
  ];
  return [...sections, ...section("in launch.json", launches), ...section("other", other)];
}

const SETTING: Pick = { kind: "setting" };

function strip(choice: Choice): Choice {
  return choice.kind === "entry" ? { kind: "entry", entry: choice.entry } : choice;
}

function section(title: string, rows: readonly Row[]): Row[] {
  return rows.length === 0 ? [] : [{ label: title, kind: QuickPickItemKind.Separator }, ...rows];
}

/** The choice with what has to be typed; undefined if the user left. */
async function completed(
  pick: Exclude<Pick, { kind: "setting" }> | undefined,
  asksArguments: boolean,
): Promise<Choice | undefined> {
  if (pick?.kind === "type") {
    return typed();
  }
  if (pick?.kind !== "entry" || !asksArguments) {
    return pick;
  }
  const text = await window.showInputBox({
    title: `ForwardLens: arguments of ${pick.entry}`,
    prompt: "As on a command line; empty for none",
  });
  return text === undefined ? undefined : { ...pick, arguments: parseArguments(text) };
}

async function typed(): Promise<Choice | undefined> {
  const text = await window.showInputBox({
    title: "ForwardLens: what to run",
    prompt: "file.py:function, script.py, -m package.module, tests/test_x.py::test_y or a name from pyproject.toml",
    validateInput: (value) => (value.trim() === "" ? "Name a function, a script, a module or a test" : undefined),
  });
  return text === undefined ? undefined : { kind: "entry", entry: text.trim(), typed: true };
}

function resolved(configuration: LaunchConfiguration, place: Place): Promise<Launch> {
  return resolveLaunch(configuration, place, (path) => readFile(path, "utf8"));
}

function placeOf(uri: Uri): Place {
  const folders = workspace.workspaceFolders ?? [];
  return {
    workspaceFolder: folderOf(uri).uri.fsPath,
    folders: Object.fromEntries(folders.map((folder) => [folder.name, folder.uri.fsPath])),
    file: uri.fsPath,
    home: homedir(),
    environment: process.env,
    setting: (name) => workspace.getConfiguration(undefined, uri).get(name),
  };
}
