/** Puts the parts together. */

import { commands, type ExtensionContext, window, workspace } from "vscode";
import { Server } from "./client.ts";
import { registerCommands } from "./commands.ts";
import { HeatView } from "./heat.ts";
import { showProblem } from "./problems.ts";
import { createEnvironmentProvider } from "./python.ts";
import { ReportView } from "./report.ts";
import { registerRulePages } from "./rulePage.ts";
import { Runs } from "./runs.ts";
import { StatusView } from "./status.ts";
import type { Problem } from "./statusText.ts";
import { isTrusted } from "./trust.ts";

let running: Server | undefined;

export function activate(context: ExtensionContext): void {
  const log = window.createOutputChannel("ForwardLens", { log: true });
  const environment = createEnvironmentProvider(log);
  const heat = new HeatView();
  const status = new StatusView({
    server: { kind: "starting" },
    trusted: isTrusted(),
    running: false,
    interpreter: undefined,
    problem: undefined,
  });
  const runs = new Runs((isRunning) => {
    status.update(isRunning ? { running: true, problem: undefined } : { running: false });
    void setContext("running", isRunning);
  });
  const server = new Server(context.extensionPath, log, environment, {
    onState: (state) => {
      status.update({ server: state });
      if (state.kind !== "ready") {
        forgetResults();
        runs.forget();
      }
    },
    onInterpreter: (interpreter) => status.update({ interpreter }),
    onHeat: (uri, lines) => {
      heat.show(uri, lines);
      void setContext("hasProfile", true);
    },
    onProblem,
    onProgress: (token, step, showElsewhere) => runs.progress(token, step, showElsewhere),
  });
  const report = new ReportView(server);

  /** In the message now, and in the status until the next run. */
  function onProblem(problem: Problem): void {
    status.update({ problem });
    void showProblem(problem);
  }

  /** The findings and hints of a server go with it; the tints are drawn here. */
  function forgetResults(): void {
    heat.clear();
    void setContext("hasProfile", false);
  }

  running = server;

  context.subscriptions.push(
    log,
    environment,
    heat,
    status,
    server,
    report,
    registerRulePages(context.extensionUri),
    ...registerCommands({
      server,
      report,
      log,
      memory: context.workspaceState,
      runs,
      onProblem,
      onClear: forgetResults,
    }),
    workspace.onDidGrantWorkspaceTrust(() => {
      status.update({ trusted: true });
      void server.trustGranted();
    }),
    workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("forwardlens.serverPython")) {
        void server.refresh();
      }
    }),
    environment.onDidChange(() => {
      status.update({ interpreter: undefined });
      // A server that runs does not depend on the user's interpreter; one that could not start may need it.
      if (!server.isRunning) {
        void server.refresh();
      }
    }),
  );
  // Not awaited: the editor must not wait for a Python to start.
  void server.refresh();
}

export async function deactivate(): Promise<void> {
  await running?.stop();
}

function setContext(key: string, value: boolean): Thenable<unknown> {
  return commands.executeCommand("setContext", `forwardlens.${key}`, value);
}
