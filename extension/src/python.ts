/** The user's interpreter, from whichever extension or setting knows it. */

import { join } from "node:path";
import {
  type Disposable,
  type Event,
  EventEmitter,
  extensions,
  type LogOutputChannel,
  type Uri,
  workspace,
} from "vscode";
import { folderOf } from "./folders.ts";
import { exists, expandPath, firstFound, type Interpreter, onPath, type Source, venvPython } from "./interpreter.ts";

const PATIENCE_MS = 10_000;

export interface EnvironmentProvider extends Disposable {
  /** Looked up when asked, never kept: an activation must not wait for it, and it differs between folders. */
  interpreter(resource: Uri | undefined): Promise<Interpreter | undefined>;
  readonly onDidChange: Event<void>;
}

/** The parts of the Python extension's API that are used here. */
interface PythonApi {
  readonly environments: {
    getActiveEnvironmentPath(resource?: Uri): { readonly id: string; readonly path: string };
    resolveEnvironment(environment: {
      readonly id: string;
      readonly path: string;
    }): Promise<{ readonly executable: { readonly uri: Uri | undefined } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: Event<unknown>;
  };
}

/** The parts of the Python Environments extension's API that are used here. */
interface EnvironmentsApi {
  getEnvironment(
    scope: Uri | undefined,
  ): Promise<{ readonly execInfo?: { readonly run?: { readonly executable: string } } } | undefined>;
  readonly onDidChangeEnvironment: Event<unknown>;
}

const PYTHON = "ms-python.python";
const ENVIRONMENTS = "ms-python.vscode-python-envs";

export function createEnvironmentProvider(log: LogOutputChannel): EnvironmentProvider {
  const changed = new EventEmitter<void>();
  const listened = new Map<string, Disposable>();

  /** Events are listened to from the first use on: before, nothing here depends on the extension. */
  function listenOnce(extension: string, event: Event<unknown> | undefined): void {
    if (event !== undefined && !listened.has(extension)) {
      listened.set(
        extension,
        event(() => changed.fire()),
      );
    }
  }

  async function fromEnvironments(resource: Uri | undefined): Promise<string | undefined> {
    const api = await apiOf<EnvironmentsApi>(ENVIRONMENTS);
    listenOnce(ENVIRONMENTS, api?.onDidChangeEnvironment);
    return (await api?.getEnvironment(resource))?.execInfo?.run?.executable;
  }

  async function fromPython(resource: Uri | undefined): Promise<string | undefined> {
    const environments = (await apiOf<PythonApi>(PYTHON))?.environments;
    listenOnce(PYTHON, environments?.onDidChangeActiveEnvironmentPath);
    const active = environments?.getActiveEnvironmentPath(resource);
    return active && (await environments?.resolveEnvironment(active))?.executable.uri?.fsPath;
  }

  function sources(resource: Uri | undefined): readonly Source[] {
    return [
      { origin: "setting", find: async () => fromSetting(resource) },
      { origin: "Python extension", find: () => fromEnvironments(resource) },
      { origin: "Python extension", find: () => fromPython(resource) },
      { origin: "workspace", find: () => fromWorkspace(resource) },
      { origin: "PATH", find: async () => (await onPath(["python3", "python"]))[0] },
    ];
  }

  const configuration = workspace.onDidChangeConfiguration((event) => {
    if (event.affectsConfiguration("forwardlens.interpreter")) {
      changed.fire();
    }
  });

  return {
    interpreter: (resource) =>
      firstFound(sources(resource), PATIENCE_MS, (origin, problem) =>
        log.warn(`Interpreter from ${origin}: ${problem}`),
      ),
    onDidChange: changed.event,
    dispose() {
      configuration.dispose();
      changed.dispose();
      for (const listener of listened.values()) {
        listener.dispose();
      }
    },
  };
}

async function apiOf<Api>(id: string): Promise<Api | undefined> {
  const extension = extensions.getExtension<Api>(id);
  return extension?.isActive ? extension.exports : extension?.activate();
}

/** Taken as it is, also when the file does not exist: a typing error must be seen, not passed over. */
function fromSetting(resource: Uri | undefined): string | undefined {
  const setting = workspace.getConfiguration("forwardlens", resource ?? null).get<string>("interpreter", "");
  return expandPath(setting, rootOf(resource)?.fsPath) || undefined;
}

async function fromWorkspace(resource: Uri | undefined): Promise<string | undefined> {
  const folder = rootOf(resource);
  const python = folder && venvPython(join(folder.fsPath, ".venv"));
  return python && (await exists(python)) ? python : undefined;
}

function rootOf(resource: Uri | undefined): Uri | undefined {
  return resource === undefined ? workspace.workspaceFolders?.[0]?.uri : folderOf(resource).uri;
}
