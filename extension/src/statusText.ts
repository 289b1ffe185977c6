/** What the language status item says, without the editor. */

import { pathWithin } from "./interpreter.ts";

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
  /** Where the folder is on the disk. */
  readonly folder: string | undefined;
  readonly server: ServerState;
  readonly trusted: boolean;
}

export interface StatusText {
  /** What a screen reader says. */
  readonly label: string;
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

const NAME = "ForwardLens";
const SHOW_LOG = { title: "Show log", command: "forwardlens.showLog" } as const;
const CHOOSE_ENTRY = { title: "Choose what to run", command: "forwardlens.selectEntry" } as const;
const CHOOSE_PYTHON = { title: "Choose interpreter", command: "forwardlens.selectInterpreter" } as const;
const TRUST = { title: "Manage trust", command: "workbench.trust.manage" } as const;
const CANCEL = { title: "Cancel", command: "forwardlens.cancel" } as const;

const CALM = { severity: "information", busy: false } as const;

/** A row is cut nowhere: what is too long pushes its button out of sight. */
const LONGEST = 38;
const LONGEST_PATH = 24;

type Shown = Omit<StatusText, "label">;

/** What goes on, or what was measured last. */
export function describe(status: Status): StatusText {
  const shown = describeShown(status);
  const rest =
    status.server.kind === "ready" && status.trusted ? (status.problem?.message ?? shown.detail) : shown.detail;
  return { ...shown, label: [shown.text === NAME ? NAME : `${NAME}: ${shown.text}`, rest].filter(Boolean).join(". ") };
}

function describeShown({ server, trusted, running, problem, environment }: Status): Shown {
  if (server.kind === "failed") {
    return { text: "Not running", detail: server.reason, severity: "error", busy: false, action: SHOW_LOG };
  }
  if (!trusted) {
    return { ...CALM, text: "Restricted", detail: "Profiling runs code, so it needs trust", action: TRUST };
  }
  if (running) {
    return { ...CALM, text: "Profiling", detail: "", busy: true, action: CANCEL };
  }
  if (server.kind === "starting") {
    return { ...CALM, text: "Starting", detail: "", busy: true, action: SHOW_LOG };
  }
  if (problem !== undefined) {
    const detail = shortened(problem.message);
    return { text: "Last run failed", detail, severity: "error", busy: false, action: SHOW_LOG };
  }
  const detail = environment === undefined ? "" : `torch ${environment.torch} on ${deviceText(environment)}`;
  return { ...CALM, text: NAME, detail, action: CHOOSE_ENTRY };
}

/** Which Python runs the code of the folder. */
export function describeInterpreter({ interpreter, environment, folder, trusted }: Status): StatusText | undefined {
  if (!trusted) {
    return undefined;
  }
  const common = { ...CALM, action: CHOOSE_PYTHON };
  if (interpreter === undefined) {
    const detail = "found when you profile";
    return { ...common, text: "Interpreter", detail, label: `${NAME}: interpreter ${detail}` };
  }
  const { path, origin } = interpreter;
  const version = environment === undefined ? "" : `Python ${environment.python}, `;
  return {
    ...common,
    text: shortPath(path, folder),
    detail: `from ${origin}`,
    label: `${NAME}: ${version}${path}, from ${origin}`,
  };
}

function deviceText({ device, device_name }: Environment): string {
  return device_name && device !== "cpu" ? `${device} ${device_name}` : device;
}

/** Within the folder as seen from it, else its end: that is where environments differ. */
function shortPath(path: string, folder: string | undefined): string {
  const inside = folder === undefined ? undefined : pathWithin(folder, path);
  if (inside !== undefined) {
    return inside;
  }
  return path.length <= LONGEST_PATH ? path : `…${path.slice(-LONGEST_PATH).replace(/^[^\\/]*(?=[\\/])/, "")}`;
}

function shortened(message: string): string {
  return message.length <= LONGEST ? message : `${message.slice(0, LONGEST - 1)}…`;
}
