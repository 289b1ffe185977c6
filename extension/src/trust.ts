/** Nothing of the workspace runs before the user trusts it. Every path to a run asks here, hidden commands included. */

import { window, workspace } from "vscode";
import { type Choice, offer } from "./problems.ts";

const MANAGE_TRUST: Choice = { title: "Manage workspace trust", command: "workbench.trust.manage" };

export function isTrusted(): boolean {
  return workspace.isTrusted;
}

/** False, and the user told why, in a restricted workspace. */
export function requireTrust(): boolean {
  if (workspace.isTrusted) {
    return true;
  }
  void explain();
  return false;
}

async function explain(): Promise<void> {
  const message =
    "ForwardLens measures a forward by running the workspace's code, which Restricted Mode does not allow; trust the workspace to profile it.";
  await offer(window.showWarningMessage, message, MANAGE_TRUST);
}
