/** The report view: a panel whose page draws what the server knows of a run. */

import { randomBytes } from "node:crypto";
import {
  commands,
  type Disposable,
  Range,
  Selection,
  type TextEditor,
  TextEditorRevealType,
  Uri,
  ViewColumn,
  type Webview,
  type WebviewPanel,
  window,
  workspace,
} from "vscode";
import type { Server } from "./client.ts";
import { coalesced } from "./coalesce.ts";
import type { FromPage, ReportData, Span, TimelineData, ToPage } from "./reportData.ts";

const EDITED = "This code was edited since the run; profile again to know what it costs now.";
const NOTHING = "Nothing has been profiled yet; press Profile this forward() above a forward method.";
/** A pause in typing, after which the page may say that its numbers are old. */
const PAUSE_MS = 300;

interface Format {
  readonly name: string;
  readonly title: string;
  readonly suffix: string;
}

interface Place {
  readonly uri: string;
  readonly range: { readonly start: Position; readonly end: Position } | null;
}

interface Position {
  readonly line: number;
  readonly character: number;
}

/**
 * One panel, which follows the latest run. It is not brought back after a reload of the window: the server's results
 * are gone by then. A hidden page is thrown away by the editor and asks for everything when it is shown again.
 */
export class ReportView implements Disposable {
  readonly #server: Server;
  readonly #extensionRoot: Uri;
  readonly #listener: Disposable;
  #panel: WebviewPanel | undefined;
  /** A file of the run that is shown; undefined for the latest. */
  #uri: string | undefined;
  #run: number | undefined;
  #request: ReportData["request"] | undefined;
  #pause: NodeJS.Timeout | undefined;

  constructor(server: Server, extensionRoot: Uri) {
    this.#server = server;
    this.#extensionRoot = extensionRoot;
    this.#listener = workspace.onDidChangeTextDocument(({ document }) => {
      if (this.#panel?.visible && document.languageId === "python") {
        clearTimeout(this.#pause);
        this.#pause = setTimeout(() => this.update(), PAUSE_MS);
      }
    });
  }

  /** Shows the run that a file belongs to, or the latest one. */
  async show(uri: string | undefined): Promise<void> {
    const client = await this.#server.ready();
    const report = await client?.sendRequest<ReportData | null>("forwardlens/report", asked(uri));
    if (!report && this.#panel === undefined) {
      void window.showInformationMessage(NOTHING);
      return;
    }
    this.#uri = uri;
    if (this.#panel === undefined) {
      this.#panel = this.#open();
    } else {
      this.#panel.reveal(undefined, false);
      this.#run = undefined;
      await this.#send();
    }
  }

  /** A run has ended, and it is what the user wants to see. */
  follow(): void {
    this.#uri = undefined;
    this.update();
  }

  /** What is known of the run may have changed. */
  update(): void {
    if (this.#panel?.visible) {
      void this.#send();
    }
  }

  /** Lets the user choose a format and a file. */
  async export(): Promise<void> {
    const client = await this.#server.ready();
    const report = await client?.sendRequest<ReportData | null>("forwardlens/report", asked(this.#uri));
    if (client === undefined || !report) {
      void window.showInformationMessage(NOTHING);
      return;
    }
    const formats = await client.sendRequest<readonly Format[]>("forwardlens/exportFormats", {});
    const items = formats.map((format) => ({ label: format.title, description: `*${format.suffix}`, format }));
    const format = (await window.showQuickPick(items, { title: "ForwardLens: export this run as" }))?.format;
    const target = format && (await window.showSaveDialog({ defaultUri: proposedFile(report, format) }));
    if (format === undefined || target === undefined) {
      return;
    }
    const params = { ...asked(this.#uri), format: format.name };
    const text = await client.sendRequest<string | null>("forwardlens/export", params);
    if (text === null) {
      void window.showInformationMessage(NOTHING);
      return;
    }
    const name = workspace.asRelativePath(target);
    try {
      await workspace.fs.writeFile(target, new TextEncoder().encode(text));
    } catch (problem) {
      const reason = problem instanceof Error ? problem.message : String(problem);
      void window.showErrorMessage(`The run was not written to ${name}: ${reason}; choose a file elsewhere.`);
      return;
    }
    void window.showInformationMessage(`The run was written to ${name}.`);
  }

  dispose(): void {
    clearTimeout(this.#pause);
    this.#listener.dispose();
    this.#panel?.dispose();
  }

  #open(): WebviewPanel {
    const root = Uri.joinPath(this.#extensionRoot, "extension", "dist");
    const panel = window.createWebviewPanel(
      "forwardlens.report",
      "ForwardLens report",
      { viewColumn: ViewColumn.Beside, preserveFocus: false },
      { enableScripts: true, localResourceRoots: [root] },
    );
    panel.iconPath = Uri.joinPath(this.#extensionRoot, "extension", "media", "icon.svg");
    panel.webview.onDidReceiveMessage((message: FromPage) => this.#answer(message));
    panel.onDidDispose(() => {
      this.#panel = undefined;
    });
    panel.webview.html = page(panel.webview, root);
    return panel;
  }

  async #answer(message: FromPage): Promise<void> {
    switch (message.kind) {
      case "ready":
        this.#run = undefined;
        return this.#send();
      case "open":
        return this.#openPlace(message.span);
      case "export":
        return this.export();
      case "profile":
        await commands.executeCommand("forwardlens.profile", this.#request);
    }
  }

  /** What has changed since it was sent last. Requests that come meanwhile are one more. */
  readonly #send = coalesced(async () => {
    const { client } = this.#server;
    const report = (await client?.sendRequest<ReportData | null>("forwardlens/report", asked(this.#uri))) ?? null;
    this.#request = report?.request;
    this.#post({ kind: "report", report });
    if (client === undefined || report === null || report.run === this.#run) {
      return;
    }
    this.#run = report.run;
    const timeline = await client.sendRequest<TimelineData | null>("forwardlens/timeline", asked(this.#uri));
    this.#post({ kind: "timeline", timeline });
  });

  #post(message: ToPage): void {
    void this.#panel?.webview.postMessage(message);
  }

  async #openPlace(span: Span): Promise<void> {
    const client = await this.#server.ready();
    const place = await client?.sendRequest<Place | null>("forwardlens/place", { ...asked(this.#uri), ...span });
    if (!place) {
      return;
    }
    const editor = await showBeside(Uri.parse(place.uri), this.#panel?.viewColumn);
    if (place.range === null) {
      void window.showInformationMessage(EDITED);
      return;
    }
    const { start, end } = place.range;
    const range = new Range(start.line, start.character, end.line, end.character);
    editor.selection = new Selection(range.start, range.start);
    editor.revealRange(range, TextEditorRevealType.InCenterIfOutsideViewport);
  }
}

function asked(uri: string | undefined): { readonly uri?: string } {
  return uri === undefined ? {} : { uri };
}

/** Where the file is open already, else in a column that does not hide the report. */
async function showBeside(uri: Uri, report: ViewColumn | undefined): Promise<TextEditor> {
  const open = window.visibleTextEditors.find(({ document }) => document.uri.toString() === uri.toString());
  const column = open?.viewColumn ?? (report === ViewColumn.One ? ViewColumn.Beside : ViewColumn.One);
  return window.showTextDocument(await workspace.openTextDocument(uri), { viewColumn: column });
}

function proposedFile({ target, entry, files }: ReportData, { suffix }: Format): Uri {
  const name = `${(target ?? entry).replace(/[^\w.-]+/g, "-")}${suffix}`;
  const file = Object.values(files)[0];
  const folder = file === undefined ? undefined : workspace.getWorkspaceFolder(Uri.parse(file));
  const root = folder?.uri ?? workspace.workspaceFolders?.[0]?.uri;
  return root === undefined ? Uri.file(name) : Uri.joinPath(root, name);
}

/** Everything that the page may load comes with the extension, and nothing of it may reach a network. */
function page(webview: Webview, root: Uri): string {
  const nonce = randomBytes(16).toString("base64");
  const script = webview.asWebviewUri(Uri.joinPath(root, "report.js"));
  const style = webview.asWebviewUri(Uri.joinPath(root, "report.css"));
  const policy = `default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${style}">
<title>ForwardLens report</title>
</head>
<body>
<div id="root"></div>
<script nonce="${nonce}" src="${script}"></script>
</body>
</html>`;
}
