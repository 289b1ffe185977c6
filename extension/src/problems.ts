/** Telling the user what went wrong, with what can be done about it one press away. */

import { commands, window } from "vscode";
import type { Problem } from "./statusText.ts";

/** A button of a message and the command behind it. */
export interface Choice {
  readonly title: string;
  readonly command: string;
  readonly argument?: unknown;
}

export const SHOW_LOG: Choice = { title: "Show log", command: "forwardlens.showLog" };
export const SELECT_INTERPRETER: Choice = { title: "Select interpreter", command: "forwardlens.selectInterpreter" };

export async function showProblem({ message, interpreter }: Problem): Promise<void> {
  await offer(window.showErrorMessage, message, ...(interpreter ? [SELECT_INTERPRETER] : []), SHOW_LOG);
}

/** Shows a message and does what the user chooses, if anything. */
export async function offer(
  show: (message: string, ...choices: Choice[]) => Thenable<Choice | undefined>,
  message: string,
  ...choices: Choice[]
): Promise<void> {
  const chosen = await show(message, ...choices);
  if (chosen !== undefined) {
    await commands.executeCommand(chosen.command, chosen.argument);
  }
}
