/** Puts the parts together. */

import { commands, type ExtensionContext, window, workspace } from "vscode";
import { Chooser } from "./chooser.ts";
import { type RunChange, Server } from "./client.ts";
import { registerCommands } from "./commands.ts";
import { HeatView } from "./heat.ts";
import { NotebookStatus } from "./notebooks.ts";
import { showProblem } from "./problems.ts";
import { Profiler } from "./profiler.ts";
import { createEnvironmentProvider } from "./python.ts";
import { ReportView } from "./report.ts";
import { registerRulePages } from "./rulePage.ts";
import { StatusView } from "./status.ts";
import type { Problem } from "./statusText.ts";
import { isTrusted } from "./trust.ts";

let running: Server | undefined;

export function activate(context: ExtensionContext): void {
  const activated = performance.now();
  const log = window.createOutputChannel("ForwardLens", { log: true });
  const environment = createEnvironmentProvider(log);
  const heat = new HeatView();
  const status = new StatusView({ server: { kind: "starting" }, trusted: isTrusted() }, (isRunning) =>
    setContext("running", isRunning),
  );
  let hasLens = false;
  let showsCosts = true;
  const server = new Server(context.extensionPath, context.globalState, log, environment, {
    onState: (state) => {
      status.update({ server: state });
      if (state.kind !== "ready") {
        forgetResults();
        status.updateFolders({ running: false });
      }
    },
    onHeat: (uri, lines) => {
      heat.show(uri, lines);
      report.update();
      void setContext("hasProfile", true);
    },
    onProblem,
    onRun,
    onFirstLens: () => {
      if (!hasLens) {
        hasLens = true;
        log.info(`First lens ${Math.round(performance.now() - activated)} ms after activation`);
      }
    },
  });
  const profiler = new Profiler(server, new Chooser(context.workspaceState), onProblem);
  const report = new ReportView(server, context.extensionUri);

  /** In the message now, and in the status until the next run. */
  function onProblem(problem: Problem): void {
    status.updateFolder(problem.uri, { problem });
    void showProblem(problem);
  }

  function onRun({ uri, running: isRunning, interpreter, environment }: RunChange): void {
    status.updateFolder(uri, {
      running: isRunning,
      ...(isRunning ? { problem: undefined } : {}),
      // What was measured with another one says nothing of this one.
      ...(interpreter ? { interpreter, environment: undefined } : {}),
      ...(environment ? { environment } : {}),
    });
    if (!isRunning) {
      report.follow();
    }
  }

  /** The findings and hints of a server go with it; the tints are drawn here. */
  function forgetResults(): void {
    heat.clear();
    report.update();
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
    new NotebookStatus(),
    registerRulePages(context.extensionUri),
    ...registerCommands({
      server,
      profiler,
      report,
      heat,
      log,
      onClear: forgetResults,
      onToggle: () => {
        showsCosts = !showsCosts;
        heat.shown = showsCosts;
        server.showsCosts = showsCosts;
      },
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
      status.updateFolders({ interpreter: undefined, environment: undefined });
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
