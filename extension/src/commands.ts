/** What the user can ask for. */

import {
  type CancellationToken,
  commands,
  type Disposable,
  type LogOutputChannel,
  type Memento,
  type Progress,
  ProgressLocation,
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
import { offer, SELECT_INTERPRETER } from "./problems.ts";
import type { ReportView } from "./report.ts";
import type { Runs } from "./runs.ts";
import type { Problem } from "./statusText.ts";
import { requireTrust } from "./trust.ts";

/** What the commands need from the rest of the extension. */
export interface Workbench {
  readonly server: Server;
  readonly report: ReportView;
  readonly log: LogOutputChannel;
  readonly memory: Memento;
  readonly runs: Runs;
  onProblem(problem: Problem): void;
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
      void window.showInformationMessage(NO_CLASS);
      return undefined;
    }
    const request = await this.#withEntry(client, asked);
    return request && this.#run(client, request);
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

  /** With a notification from the press to the end, so that there is always something to cancel. */
  async #run(client: LanguageClient, request: ProfileRequest): Promise<unknown> {
    const options = { location: ProgressLocation.Notification, cancellable: true, title: "ForwardLens" };
    const answer = await window.withProgress(options, (progress, cancelled) => {
      // Whatever goes wrong with this ends the run's own request too, which tells it.
      cancelled.onCancellationRequested(() =>
        execute(client, "forwardlens.cancel", { uri: request.uri }).catch(() => undefined),
      );
      return this.#workbench.runs.during(
        (message) => progress.report({ message }),
        () => this.#answer(client, request, progress, cancelled),
      );
    });
    if (answer === NO_INTERPRETER) {
      await offer(window.showErrorMessage, NO_INTERPRETER, SELECT_INTERPRETER);
      return undefined;
    }
    return answer;
  }

  /** The run's summary. One that failed was told by the server, which knows why; a request that fails is told here. */
  async #answer(
    client: LanguageClient,
    request: ProfileRequest,
    progress: Progress<{ message: string }>,
    cancelled: CancellationToken,
  ): Promise<unknown> {
    progress.report({ message: "Looking for your interpreter" });
    const interpreter = await this.#workbench.server.interpreter(Uri.parse(request.uri));
    if (cancelled.isCancellationRequested) {
      return undefined;
    }
    if (interpreter === undefined) {
      return NO_INTERPRETER;
    }
    try {
      return await execute(client, PROFILE, request);
    } catch (problem) {
      const message = problem instanceof Error ? problem.message : String(problem);
      // What a request says whose server is gone is about connections, which the user does not know of.
      this.#workbench.onProblem({ message: client.isRunning() ? message : SERVER_GONE, interpreter: false });
      return undefined;
    }
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
}

const KINDS = {
  file: "in this file",
  configured: "in pyproject.toml",
  workspace: "elsewhere in the workspace",
} as const;

const NO_ENTRY =
  "Nothing in this file builds a model and its inputs; write a function that returns them, or name one in the setting forwardlens.entry.";
const NO_CLASS = "The cursor is in no class with a forward(); put it into the one to profile.";
const NO_INTERPRETER = "ForwardLens found no Python to run your code with; select the one that has torch.";
const SERVER_GONE =
  "The ForwardLens server stopped during the run; profile again, or look into the log for the reason.";

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
