/** What the user can ask for. */

import { commands, type Disposable, type LogOutputChannel, window } from "vscode";
import type { Server } from "./client.ts";
import { asRequest, PROFILE } from "./entries.ts";
import type { HeatView } from "./heat.ts";
import { asUri, pickInterpreter } from "./interpreterPicker.ts";
import { execute, type Profiler } from "./profiler.ts";
import type { ReportView } from "./report.ts";
import { requireTrust } from "./trust.ts";

/** What the commands need from the rest of the extension. */
export interface Workbench {
  readonly server: Server;
  readonly profiler: Profiler;
  readonly report: ReportView;
  readonly heat: HeatView;
  readonly log: LogOutputChannel;
  onClear(): void;
  onToggle(): void;
}

export function registerCommands(workbench: Workbench): Disposable[] {
  const { server, profiler, report, heat, log } = workbench;
  return [
    commands.registerCommand(PROFILE, (argument: unknown) => profiler.profile(argument)),
    commands.registerCommand("forwardlens.cancel", () => onServer(server, "forwardlens.cancel", activeFolderOnly())),
    commands.registerCommand("forwardlens.clear", async () => {
      await onServer(server, "forwardlens.clear");
      workbench.onClear();
    }),
    commands.registerCommand("forwardlens.report", (argument: unknown) => report.show(asRequest(argument)?.uri)),
    commands.registerCommand("forwardlens.export", () => report.export()),
    commands.registerCommand("forwardlens.selectEntry", () => profiler.choose()),
    commands.registerCommand("forwardlens.selectInterpreter", async (argument: unknown) => {
      if (requireTrust()) {
        await pickInterpreter(asUri(argument));
      }
    }),
    commands.registerCommand("forwardlens.toggleCosts", () => workbench.onToggle()),
    commands.registerCommand("forwardlens.nextCostlyLine", () => heat.go(1)),
    commands.registerCommand("forwardlens.previousCostlyLine", () => heat.go(-1)),
    commands.registerCommand("forwardlens.restart", () => server.restart()),
    commands.registerCommand("forwardlens.showLog", () => log.show()),
  ];
}

/** The status item and the palette speak of the folder that is looked at. */
function activeFolderOnly(): { uri?: string } {
  const uri = window.activeTextEditor?.document.uri;
  return uri?.scheme === "file" ? { uri: uri.toString() } : {};
}

/** For commands about what is already there: without a server there is nothing to do. */
async function onServer({ client }: Server, command: string, argument: object = {}): Promise<unknown> {
  return client && execute(client, command, argument);
}
