/** What the language status item says, without the editor. */

export type ServerState =
  | { readonly kind: "starting" }
  | { readonly kind: "ready" }
  | { readonly kind: "failed"; readonly reason: string };

export interface Problem {
  readonly message: string;
  /** Whether another interpreter may help. */
  readonly interpreter: boolean;
  /** The file that the run was asked for; the active one's folder if undefined. */
  readonly uri?: string | undefined;
}

/** What a run was measured with. */
export interface Environment {
  readonly python: string;
  readonly torch: string;
  readonly device: string;
  readonly device_name?: string | null;
}

/** What goes on in one workspace folder. */
export interface FolderStatus {
  readonly running: boolean;
  /** Undefined until a run asked for it: looking it up can be slow. */
  readonly interpreter: { readonly path: string; readonly origin: string } | undefined;
  /** Of the last run with this interpreter. */
  readonly environment: Environment | undefined;
  /** The last run's failure, until the next run starts. */
  readonly problem: Problem | undefined;
}

export interface Status extends FolderStatus {
  readonly server: ServerState;
  readonly trusted: boolean;
}

export interface StatusText {
  readonly text: string;
  readonly detail: string;
  readonly severity: "information" | "warning" | "error";
  readonly busy: boolean;
  readonly action: { readonly title: string; readonly command: string };
}

export const QUIET: FolderStatus = {
  running: false,
  interpreter: undefined,
  environment: undefined,
  problem: undefined,
};

const SHOW_LOG = { title: "Show log", command: "forwardlens.showLog" } as const;
const CHOOSE = { title: "Choose interpreter", command: "forwardlens.selectInterpreter" } as const;
const TRUST = { title: "Manage trust", command: "workbench.trust.manage" } as const;
const CANCEL = { title: "Cancel", command: "forwardlens.cancel" } as const;

const CALM = { severity: "information", busy: false } as const;

export function describe(status: Status): StatusText {
  if (status.server.kind === "failed") {
    return { text: "Not running", detail: status.server.reason, severity: "error", busy: false, action: SHOW_LOG };
  }
  if (!status.trusted) {
    return { ...CALM, text: "Restricted", detail: "Profiling runs code, so it needs trust", action: TRUST };
  }
  if (status.running) {
    return { ...CALM, text: "Profiling", detail: details(status), busy: true, action: CANCEL };
  }
  if (status.server.kind === "starting") {
    return { ...CALM, text: "Starting", detail: "", busy: true, action: SHOW_LOG };
  }
  if (status.problem !== undefined) {
    const { message, interpreter } = status.problem;
    const action = interpreter ? CHOOSE : SHOW_LOG;
    return { text: "Last run failed", detail: message, severity: "error", busy: false, action };
  }
  return { ...CALM, text: "ForwardLens", detail: details(status), action: CHOOSE };
}

/** `cuda:0 NVIDIA H200, torch 2.13.0, Python 3.11.7: /venv/bin/python (from .venv)`, as far as it is known. */
function details({ interpreter, environment }: FolderStatus): string {
  const path = interpreter === undefined ? "" : `${interpreter.path} (from ${interpreter.origin})`;
  if (environment === undefined) {
    return path;
  }
  const { python, torch, device, device_name } = environment;
  const where = device_name ? `${device} ${device_name}` : device;
  return [`${where}, torch ${torch}, Python ${python}`, path].filter((part) => part !== "").join(": ");
}
