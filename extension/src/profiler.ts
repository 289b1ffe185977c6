/** Profiling on command: what is run is settled, the run is shown while it goes on, and its failures are told. */

import { randomUUID } from "node:crypto";
import { type CancellationToken, type Progress, ProgressLocation, type TextEditor, Uri, window } from "vscode";
import {
  CodeLensRequest,
  CodeLensResolveRequest,
  ExecuteCommandRequest,
  type LanguageClient,
  WorkDoneProgress,
} from "vscode-languageclient/node";
import type { Chooser } from "./chooser.ts";
import type { Server } from "./client.ts";
import { asRequest, lensAt, PROFILE, type ProfileRequest, requestOf } from "./entries.ts";
import { folderLabel } from "./folders.ts";
import { isNotebookCell, NOTEBOOKS_LATER } from "./notebooks.ts";
import { chooseInterpreter, offer } from "./problems.ts";
import type { Problem } from "./statusText.ts";
import { requireTrust } from "./trust.ts";

export class Profiler {
  readonly #server: Server;
  readonly #chooser: Chooser;
  readonly #onProblem: (problem: Problem) => void;

  constructor(server: Server, chooser: Chooser, onProblem: (problem: Problem) => void) {
    this.#server = server;
    this.#chooser = chooser;
    this.#onProblem = onProblem;
  }

  /** Resolves to the run's summary, or to undefined when there was no run. */
  async profile(argument: unknown): Promise<unknown> {
    const asked = asRequest(argument);
    if (asked === undefined && isNotebookCell(window.activeTextEditor?.document)) {
      void window.showInformationMessage(NOTEBOOKS_LATER);
      return undefined;
    }
    const client = requireTrust() ? await this.#server.ready() : undefined;
    if (client === undefined) {
      return undefined;
    }
    const request = asked ?? (await requestAtCursor(client, window.activeTextEditor));
    if (request === undefined) {
      void window.showInformationMessage(NO_CLASS);
      return undefined;
    }
    const settled = await this.#chooser.settle(client, request);
    return settled && this.#run(client, settled);
  }

  /** Lets the user choose what profiling the active file runs. */
  async choose(): Promise<void> {
    const client = requireTrust() ? await this.#server.ready() : undefined;
    const request = client && (await requestAtCursor(client, window.activeTextEditor));
    const uri = window.activeTextEditor?.document.uri.toString();
    if (client !== undefined && uri !== undefined) {
      await this.#chooser.choose(client, request ?? { uri });
    }
  }

  /** With a notification from the press to the end, so that there is always something to cancel. */
  async #run(client: LanguageClient, request: ProfileRequest): Promise<unknown> {
    const title = `ForwardLens${folderLabel(request.uri)}`;
    const options = { location: ProgressLocation.Notification, cancellable: true, title };
    const answer = await window.withProgress(options, (progress, cancelled) => {
      // Whatever goes wrong with this ends the run's own request too, which tells it.
      cancelled.onCancellationRequested(() =>
        execute(client, "forwardlens.cancel", { uri: request.uri }).catch(() => undefined),
      );
      return this.#answer(client, request, progress, cancelled);
    });
    if (answer === NO_INTERPRETER) {
      await offer(window.showErrorMessage, NO_INTERPRETER, chooseInterpreter(request.uri));
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
    const interpreter = await this.#server.interpreter(Uri.parse(request.uri));
    if (cancelled.isCancellationRequested) {
      return undefined;
    }
    if (interpreter === undefined && request.python === undefined) {
      return NO_INTERPRETER;
    }
    const workDoneToken = randomUUID();
    const listener = client.onProgress(WorkDoneProgress.type, workDoneToken, (step) => {
      if (step.kind !== "end" && step.message !== undefined) {
        progress.report({ message: step.message });
      }
    });
    try {
      return await execute(client, PROFILE, { ...request, workDoneToken });
    } catch (problem) {
      const message = problem instanceof Error ? problem.message : String(problem);
      // What a request says whose server is gone is about connections, which the user does not know of.
      const told = client.isRunning() ? message : SERVER_GONE;
      this.#onProblem({ message: told, interpreter: false, uri: request.uri });
      return undefined;
    } finally {
      listener.dispose();
    }
  }
}

const NO_CLASS = "The cursor is in no class with a forward(); put it into the one to profile.";
const NO_INTERPRETER = "ForwardLens found no Python to run your code with; choose the one that has torch.";
const SERVER_GONE =
  "The ForwardLens server stopped during the run; profile again, or look into the log for the reason.";

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

export async function execute(client: LanguageClient, command: string, ...args: unknown[]): Promise<unknown> {
  return client.sendRequest(ExecuteCommandRequest.type, { command, arguments: args });
}
