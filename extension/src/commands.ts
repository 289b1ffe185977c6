/** What the user can ask for. */

import {
  commands,
  type Disposable,
  type LogOutputChannel,
  type Memento,
  type TextEditor,
  Uri,
  window,
  workspace,
} from "vscode";
import {
  CodeLensRequest,
  CodeLensResolveRequest,
  ExecuteCommandRequest,
  type LanguageClient,
} from "vscode-languageclient/node";
import type { Server } from "./client.ts";
import { asRequest, chooseEntry, type Entry, lensAt, PROFILE, type ProfileRequest, requestOf } from "./entries.ts";
import type { ReportView } from "./report.ts";
import type { Problem } from "./statusText.ts";
import { requireTrust } from "./trust.ts";

/** What the commands need from the rest of the extension. */
export interface Workbench {
  readonly server: Server;
  readonly report: ReportView;
  readonly log: LogOutputChannel;
  readonly memory: Memento;
  onRunning(running: boolean): void;
  /** Why the last run gave nothing; undefined from the next one on. */
  onProblem(problem: Problem | undefined): void;
  onClear(): void;
}

export function registerCommands(workbench: Workbench): Disposable[] {
  const { server, report, log } = workbench;
  const profiler = new Profiler(workbench);
  return [
    commands.registerCommand(PROFILE, (argument: unknown) => profiler.profile(argument)),
    commands.registerCommand("forwardlens.cancel", () => onServer(server, "forwardlens.cancel")),
    commands.registerCommand("forwardlens.clear", async () => {
      await onServer(server, "forwardlens.clear");
      workbench.onClear();
    }),
    commands.registerCommand("forwardlens.report", (argument: unknown) => report.show(asRequest(argument)?.uri)),
    commands.registerCommand("forwardlens.selectEntry", () => profiler.selectEntry()),
    commands.registerCommand("forwardlens.selectInterpreter", selectInterpreter),
    commands.registerCommand("forwardlens.restart", () => server.restart()),
    commands.registerCommand("forwardlens.showLog", () => log.show()),
  ];
}

class Profiler {
  readonly #workbench: Workbench;
  #runs = 0;

  constructor(workbench: Workbench) {
    this.#workbench = workbench;
  }

  /** Resolves to the run's summary, or to undefined when there was no run. */
  async profile(argument: unknown): Promise<unknown> {
    const client = requireTrust() ? await this.#workbench.server.ready() : undefined;
    if (client === undefined) {
      return undefined;
    }
    const asked = asRequest(argument) ?? (await requestAtCursor(client, window.activeTextEditor));
    if (asked === undefined) {
      void window.showInformationMessage("Put the cursor into the class whose forward() is to be profiled.");
      return undefined;
    }
    const request = await this.#withEntry(client, asked);
    return request !== undefined && (await this.#hasInterpreter(request)) ? this.#run(client, request) : undefined;
  }

  async selectEntry(): Promise<void> {
    const uri = window.activeTextEditor?.document.uri.toString();
    const client = requireTrust() && uri !== undefined ? await this.#workbench.server.ready() : undefined;
    if (client === undefined || uri === undefined) {
      return;
    }
    const candidates = await entriesOf(client, { uri });
    if (candidates.length === 0) {
      void window.showInformationMessage(NO_ENTRY);
      return;
    }
    await this.#ask(uri, candidates);
  }

  /** A run that fails is told by the server, which knows why; here only requests that fail are. */
  async #run(client: LanguageClient, request: ProfileRequest): Promise<unknown> {
    this.#started(1);
    this.#workbench.onProblem(undefined);
    try {
      const summary = (await execute(client, PROFILE, request)) as Summary;
      this.#workbench.onProblem(problemOf(summary));
      return summary;
    } catch (problem) {
      const message = problem instanceof Error ? problem.message : String(problem);
      this.#workbench.onProblem({ message, interpreter: false });
      void showProblem(message);
      return undefined;
    } finally {
      this.#started(-1);
    }
  }

  /** Runs can overlap for a moment: the server stops one when the next is asked for. */
  #started(difference: 1 | -1): void {
    this.#runs += difference;
    this.#workbench.onRunning(this.#runs > 0);
  }

  /** The request with an entry point, if one has to be chosen here; undefined if the user chose none. */
  async #withEntry(client: LanguageClient, request: ProfileRequest): Promise<ProfileRequest | undefined> {
    const configured = workspace.getConfiguration("forwardlens", Uri.parse(request.uri)).get<string>("entry", "");
    if (request.entry !== undefined || configured !== "") {
      return request;
    }
    const candidates = await entriesOf(client, request);
    const choice = chooseEntry(candidates, this.#workbench.memory.get<string>(memoryKey(request.uri)));
    if (choice.kind === "server") {
      return request;
    }
    const entry = choice.kind === "use" ? choice.entry : await this.#ask(request.uri, candidates);
    return entry === undefined ? undefined : { ...request, entry };
  }

  async #ask(uri: string, candidates: readonly Entry[]): Promise<string | undefined> {
    const items = candidates.map(({ entry, kind }) => ({ label: entry, description: KINDS[kind], entry }));
    const picked = await window.showQuickPick(items, { title: "ForwardLens: what builds the model and its inputs?" });
    if (picked !== undefined) {
      await this.#workbench.memory.update(memoryKey(uri), picked.entry);
    }
    return picked?.entry;
  }

  async #hasInterpreter(request: ProfileRequest): Promise<boolean> {
    if ((await this.#workbench.server.interpreter(Uri.parse(request.uri))) !== undefined) {
      return true;
    }
    const select = "Select Interpreter";
    const message = "ForwardLens found no Python to run your code with.";
    if ((await window.showErrorMessage(message, select)) === select) {
      await selectInterpreter();
    }
    return false;
  }
}

/** The part of the server's answer to a run that is needed here. */
interface Summary {
  readonly status: "done" | "cancelled" | "failed";
  readonly message?: string;
  readonly kind?: string;
}

function problemOf({ status, message = "", kind }: Summary): Problem | undefined {
  return status === "failed" ? { message, interpreter: kind === "environment" } : undefined;
}

const KINDS = {
  file: "in this file",
  configured: "in pyproject.toml",
  workspace: "elsewhere in the workspace",
} as const;

const NO_ENTRY =
  "ForwardLens found nothing in this file that builds a model and its inputs. The setting forwardlens.entry can name it.";

function memoryKey(uri: string): string {
  return `entry:${uri}`;
}

/** What the lens above the cursor would profile. The server knows where the classes are, so it is asked. */
async function requestAtCursor(
  client: LanguageClient,
  editor: TextEditor | undefined,
): Promise<ProfileRequest | undefined> {
  if (editor?.document.languageId !== "python") {
    return undefined;
  }
  const textDocument = client.code2ProtocolConverter.asTextDocumentIdentifier(editor.document);
  const lenses = (await client.sendRequest(CodeLensRequest.type, { textDocument })) ?? [];
  const lens = lensAt(lenses, editor.selection.active);
  const resolved =
    lens && lens.command === undefined ? await client.sendRequest(CodeLensResolveRequest.type, lens) : lens;
  return requestOf(resolved);
}

async function entriesOf(client: LanguageClient, request: ProfileRequest): Promise<readonly Entry[]> {
  return (await execute(client, "forwardlens.entries", request)) as readonly Entry[];
}

async function execute(client: LanguageClient, command: string, ...args: unknown[]): Promise<unknown> {
  return client.sendRequest(ExecuteCommandRequest.type, { command, arguments: args });
}

/** For commands about what is already there: without a server there is nothing to do. */
async function onServer(server: Server, command: string): Promise<unknown> {
  const client = server.isRunning ? await server.ready() : undefined;
  return client && execute(client, command);
}

async function showProblem(message: string): Promise<void> {
  const log = "Show Log";
  if ((await window.showErrorMessage(message, log)) === log) {
    await commands.executeCommand("forwardlens.showLog");
  }
}

/** The Python extension's own picker where there is one, else a file dialog for our setting. */
async function selectInterpreter(): Promise<void> {
  if ((await commands.getCommands(true)).includes("python.setInterpreter")) {
    await commands.executeCommand("python.setInterpreter");
    return;
  }
  const picked = await window.showOpenDialog({ title: "Python that has torch", openLabel: "Use" });
  const path = picked?.[0]?.fsPath;
  if (path !== undefined) {
    await workspace.getConfiguration("forwardlens").update("interpreter", path, !workspace.workspaceFolders);
  }
}
