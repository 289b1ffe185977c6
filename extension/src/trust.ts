/** Nothing of the workspace runs before the user trusts it. Every path to a run asks here, hidden commands included. */

import { commands, window, workspace } from "vscode";

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
  const manage = "Manage Workspace Trust";
  const message =
    "ForwardLens measures a forward by running the workspace's code, which Restricted Mode does not allow.";
  if ((await window.showWarningMessage(message, manage)) === manage) {
    await commands.executeCommand("workbench.trust.manage");
  }
}
