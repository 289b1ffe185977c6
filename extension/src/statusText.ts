/** What the language status item says, without the editor. */

import type { Interpreter } from "./interpreter.ts";

export type ServerState =
  | { readonly kind: "starting" }
  | { readonly kind: "ready" }
  | { readonly kind: "failed"; readonly reason: string };

export interface Problem {
  readonly message: string;
  /** Whether another interpreter may help. */
  readonly interpreter: boolean;
}

export interface Status {
  readonly server: ServerState;
  readonly trusted: boolean;
  readonly running: boolean;
  /** Undefined until a run asked for it: looking it up can be slow. */
  readonly interpreter: Interpreter | undefined;
  /** The last run's failure, until the next run starts. */
  readonly problem: Problem | undefined;
}

export interface StatusText {
  readonly text: string;
  readonly detail: string;
  readonly severity: "information" | "warning" | "error";
  readonly busy: boolean;
  readonly action: { readonly title: string; readonly command: string };
}

const SHOW_LOG = { title: "Show Log", command: "forwardlens.showLog" } as const;
const SELECT = { title: "Select Interpreter", command: "forwardlens.selectInterpreter" } as const;
const TRUST = { title: "Manage Trust", command: "workbench.trust.manage" } as const;
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
    return { ...CALM, text: "Profiling", detail: interpreterText(status.interpreter), busy: true, action: CANCEL };
  }
  if (status.server.kind === "starting") {
    return { ...CALM, text: "Starting", detail: "", busy: true, action: SHOW_LOG };
  }
  if (status.problem !== undefined) {
    const { message, interpreter } = status.problem;
    const action = interpreter ? SELECT : SHOW_LOG;
    return { text: "Last run failed", detail: message, severity: "error", busy: false, action };
  }
  return { ...CALM, text: "ForwardLens", detail: interpreterText(status.interpreter), action: SELECT };
}

function interpreterText(interpreter: Interpreter | undefined): string {
  return interpreter === undefined ? "" : `${interpreter.path} (from ${interpreter.origin})`;
}
