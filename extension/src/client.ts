/** The language server's life: started, replaced when another Python is to run it, stopped. */

import type { ChildProcess } from "node:child_process";
import { type Disposable, type LogOutputChannel, type Memento, Uri, window, workspace } from "vscode";
import {
  type ConfigurationParams,
  type DynamicFeature,
  type ExecuteCommandRegistrationOptions,
  ExecuteCommandRequest,
  InlayHintRequest,
  LanguageClient,
  type LanguageClientOptions,
  type RegistrationData,
  RevealOutputChannelOn,
  State,
  type StaticFeature,
} from "vscode-languageclient/node";
import { coalesced } from "./coalesce.ts";
import { exists, expandPath, type Interpreter, onPath } from "./interpreter.ts";
import type { LineHeat } from "./levels.ts";
import { logLevel } from "./logLevel.ts";
import { offer, SHOW_LOG } from "./problems.ts";
import type { EnvironmentProvider } from "./python.ts";
import { withRenderedPage } from "./rulePage.ts";
import { type Rejection, type Started, startFirst, startPython } from "./server.ts";
import type { Environment, Problem, ServerState } from "./statusText.ts";
import { isTrusted } from "./trust.ts";

/**
 * The plain name first: it is new enough on most machines, and a version manager's stand-ins for versions that are not
 * chosen take 0.4 s each to say so. `py` is what an installer on Windows puts on PATH; it starts the newest Python.
 */
const PATH_NAMES = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python", "py"];

/** What the server's life means for the rest of the extension. */
export interface ServerEvents {
  onState(state: ServerState): void;
  onHeat(uri: string, lines: readonly LineHeat[]): void;
  /** What the server would have told the user itself in an editor that has no more than messages. */
  onProblem(problem: Problem): void;
  onRun(change: RunChange): void;
  /** How long after it was asked for the first lens was there. */
  onFirstLens(): void;
}

/** What is new about a run. `uri` is the file it was asked for. */
export interface RunChange {
  readonly uri: string;
  readonly running: boolean;
  readonly interpreter?: { readonly path: string; readonly origin: string } | null;
  readonly environment?: Environment;
}

interface ServerProblem {
  readonly kind: string;
  readonly message: string;
  readonly uri?: string | null;
}

interface ProfileChanged {
  readonly uri: string;
  readonly lines: readonly LineHeat[];
}

export class Server implements Disposable {
  readonly #extensionRoot: string;
  readonly #log: LogOutputChannel;
  readonly #environment: EnvironmentProvider;
  readonly #events: ServerEvents;
  readonly #memory: Memento;
  #client: LanguageClient | undefined;
  #python: string | undefined;
  #process: ChildProcess | undefined;
  #disposed = false;
  #showsCosts = true;

  /** `memory` outlives the editor and belongs to no workspace. */
  constructor(
    extensionRoot: string,
    memory: Memento,
    log: LogOutputChannel,
    environment: EnvironmentProvider,
    events: ServerEvents,
  ) {
    this.#extensionRoot = extensionRoot;
    this.#memory = memory;
    this.#log = log;
    this.#environment = environment;
    this.#events = events;
  }

  /** Starts the server, or replaces it if it would be started differently now. */
  readonly refresh = coalesced(() => this.#refresh());

  /** Replaces the server in any case. */
  async restart(): Promise<void> {
    this.#python = undefined;
    await this.#memory.update(LAST_PYTHON, undefined);
    await this.refresh();
  }

  /** The running client; undefined, and the user told why, if there is none. */
  async ready(): Promise<LanguageClient | undefined> {
    if (!this.isRunning) {
      await this.refresh();
    }
    return this.client;
  }

  /** The running client; undefined if there is none. Starts nothing: without a server there is nothing to ask for. */
  get client(): LanguageClient | undefined {
    return this.#client?.state === State.Running ? this.#client : undefined;
  }

  /** Shows or hides the costs at the ends of lines, without asking the server for anything new. */
  set showsCosts(shown: boolean) {
    this.#showsCosts = shown;
    const feature = this.#client?.getFeature(InlayHintRequest.method);
    for (const document of new Set(window.visibleTextEditors.map((editor) => editor.document))) {
      feature?.getProvider(document)?.onDidChangeInlayHints.fire();
    }
  }

  get isRunning(): boolean {
    return this.client !== undefined;
  }

  async trustGranted(): Promise<void> {
    await (this.isRunning ? this.#client?.sendNotification("forwardlens/trustGranted", {}) : this.refresh());
  }

  async stop(): Promise<void> {
    const client = this.#client;
    const process = this.#process;
    this.#client = undefined;
    this.#process = undefined;
    this.#python = undefined;
    try {
      await client?.dispose();
    } catch (problem) {
      // One that never got to run cannot be stopped, and need not be.
      this.#log.debug(`Stopping the server: ${problem}`);
    }
    endSoon(process);
  }

  dispose(): void {
    this.#disposed = true;
    void this.stop();
  }

  async #refresh(): Promise<void> {
    const { started, rejected } = await startFirst(this.#candidates(), (python) => this.#startPython(python));
    if (this.#disposed || (this.isRunning && started?.facts.executable === this.#python)) {
      started?.process.kill();
      return;
    }
    await this.stop();
    this.#logRejected(rejected);
    if (started === undefined) {
      this.#events.onState({ kind: "failed", reason: "No Python 3.11 or newer was found to run the server" });
      void explainMissingPython();
      return;
    }
    if (await this.#start(started)) {
      await this.#remember(started);
    }
  }

  /** A Python of the workspace is not remembered: the next workspace may have a reason not to trust it. */
  async #remember({ python, facts }: Started): Promise<void> {
    if (chosenPython() !== "" || facts.executable === this.#memory.get(LAST_PYTHON)) {
      return;
    }
    if ((await onPath(PATH_NAMES)).includes(python)) {
      await this.#memory.update(LAST_PYTHON, facts.executable);
    }
  }

  #startPython(python: string): Promise<Started> {
    return startPython(python, this.#extensionRoot, (line) => this.#log[logLevel(line)](line));
  }

  /** Whether it runs now. */
  async #start(started: Started): Promise<boolean> {
    const client = this.#createClient(started);
    this.#client = client;
    this.#python = started.facts.executable;
    try {
      await client.start();
      return true;
    } catch (problem) {
      this.#log.error(`The server did not start: ${problem}`);
      this.#events.onState({ kind: "failed", reason: "The server did not start; the log says why" });
      return false;
    }
  }

  #createClient(started: Started): LanguageClient {
    let unused: Started | undefined = started;
    /** Called again by the client where the server died. */
    const serve = async () => {
      const { process, facts } = unused ?? (await this.#startPython(started.facts.executable));
      unused = undefined;
      this.#log.info(`The server is process ${process.pid}: ${facts.executable}, Python ${facts.version.join(".")}`);
      this.#process = process;
      return { reader: process.stdout, writer: process.stdin };
    };
    const client = new Client("forwardlens", "ForwardLens", serve, this.#options());
    client.onDidChangeState(({ newState }) => this.#stateChanged(client, newState));
    client.onNotification("forwardlens/profileChanged", ({ uri, lines }: ProfileChanged) =>
      this.#events.onHeat(uri, lines),
    );
    client.onNotification("forwardlens/problem", ({ kind, message, uri }: ServerProblem) =>
      this.#events.onProblem({ message, interpreter: kind === "environment", uri: uri ?? undefined }),
    );
    client.onNotification("forwardlens/runChanged", (change: RunChange) => this.#events.onRun(change));
    return client;
  }

  #stateChanged(client: LanguageClient, state: State): void {
    if (client !== this.#client) {
      return;
    }
    if (state === State.Running) {
      this.#events.onState({ kind: "ready" });
    } else if (state === State.Stopped) {
      this.#events.onState({ kind: "failed", reason: "The server stopped; the log says why" });
    } else {
      this.#events.onState({ kind: "starting" });
    }
  }

  #options(): LanguageClientOptions {
    return {
      documentSelector: [{ scheme: "file", language: "python" }],
      outputChannel: this.#log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationOptions: { ...settings(), trusted: isTrusted(), showsProblems: true },
      initializationFailedHandler: () => false,
      middleware: {
        handleDiagnostics: (uri, diagnostics, next) => next(uri, diagnostics.map(withRenderedPage)),
        provideInlayHints: async (document, range, token, next) =>
          this.#showsCosts ? next(document, range, token) : [],
        provideCodeLenses: async (document, token, next) => {
          const lenses = await next(document, token);
          if (lenses?.length) {
            this.#events.onFirstLens();
          }
          return lenses;
        },
        workspace: {
          configuration: async (params, token, next) => {
            const values = await next(params, token);
            return Array.isArray(values)
              ? Promise.all(values.map((value, i) => this.#complete(params, i, value)))
              : values;
          },
        },
      },
    };
  }

  /** The server asks for settings when it is about to run something; then the interpreter is looked up. */
  async #complete(params: ConfigurationParams, index: number, value: unknown): Promise<unknown> {
    const item = params.items[index];
    if (item?.section !== "forwardlens") {
      return value;
    }
    const found = await this.interpreter(item.scopeUri === undefined ? undefined : Uri.parse(item.scopeUri));
    // Only what was set by hand overrules the interpreter that the project names for an entry.
    return found?.origin === "setting"
      ? { ...(value as object), interpreter: found.path }
      : { ...(value as object), interpreter: "", selectedInterpreter: found };
  }

  /** A workspace can bring its own interpreter, so none is looked up before it is trusted. */
  async interpreter(resource: Uri | undefined): Promise<Interpreter | undefined> {
    return isTrusted() ? this.#environment.interpreter(resource) : undefined;
  }

  /**
   * Pythons that may run the server, what ran it last first. Those on PATH come before the workspace's, which has to be
   * searched for and must not be run before it is trusted.
   */
  async *#candidates(): AsyncGenerator<string> {
    const chosen = chosenPython();
    if (chosen !== "") {
      yield chosen;
      return;
    }
    const last = this.#memory.get<string>(LAST_PYTHON);
    if (last !== undefined && (await exists(last))) {
      yield last;
    }
    yield* await onPath(PATH_NAMES);
    const interpreter = isTrusted() ? await this.#environment.interpreter(undefined) : undefined;
    if (interpreter !== undefined) {
      yield interpreter.path;
    }
  }

  #logRejected(rejected: readonly Rejection[]): void {
    for (const { python, reason } of rejected) {
      this.#log.info(`Not running the server with ${python}: ${reason}`);
    }
  }
}

/** Registers the server's commands except those that this extension wraps under the same name. */
class Client extends LanguageClient {
  override registerFeature(feature: StaticFeature | DynamicFeature<unknown>): void {
    super.registerFeature(isExecuteCommand(feature) ? withoutOwnCommands(feature) : feature);
  }
}

type ExecuteCommands = DynamicFeature<ExecuteCommandRegistrationOptions>;

function isExecuteCommand(feature: StaticFeature | DynamicFeature<unknown>): feature is ExecuteCommands {
  return "registrationType" in feature && feature.registrationType.method === ExecuteCommandRequest.method;
}

function withoutOwnCommands(feature: ExecuteCommands): ExecuteCommands {
  const register = feature.register.bind(feature);
  feature.register = (data: RegistrationData<ExecuteCommandRegistrationOptions>) => {
    const others = data.registerOptions.commands.filter((command) => !OWN_COMMANDS.has(command));
    register({ ...data, registerOptions: { ...data.registerOptions, commands: others } });
  };
  return feature;
}

const OWN_COMMANDS = new Set(["forwardlens.profile", "forwardlens.cancel", "forwardlens.clear", "forwardlens.report"]);

const LAST_PYTHON = "lastPython";
const PATIENCE_MS = 2_000;

/** One that does not leave when it is told to is ended. */
function endSoon(process: ChildProcess | undefined): void {
  if (process?.exitCode === null && process.signalCode === null) {
    const timer = setTimeout(() => process.kill("SIGKILL"), PATIENCE_MS);
    process.once("exit", () => clearTimeout(timer));
  }
}

function chosenPython(): string {
  return expandPath(workspace.getConfiguration("forwardlens").get<string>("serverPython", ""), undefined);
}

function settings(): Record<string, unknown> {
  return workspace.getConfiguration().get<Record<string, unknown>>("forwardlens", {});
}

async function explainMissingPython(): Promise<void> {
  const argument = "forwardlens.serverPython";
  const settings = { title: "Open settings", command: "workbench.action.openSettings", argument };
  const message =
    "ForwardLens found no Python 3.11 or newer to run its server; install one, which need not be your project's, or name it in the settings.";
  await offer(window.showErrorMessage, message, settings, SHOW_LOG);
}
