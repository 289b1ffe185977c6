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

/** For the folder of `uri`, else for that of the active file. */
export function chooseInterpreter(uri: string | undefined): Choice {
  return { title: "Choose interpreter", command: "forwardlens.selectInterpreter", argument: uri };
}

export async function showProblem({ message, interpreter, uri }: Problem): Promise<void> {
  await offer(window.showErrorMessage, message, ...(interpreter ? [chooseInterpreter(uri)] : []), SHOW_LOG);
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
