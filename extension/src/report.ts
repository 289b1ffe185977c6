/** The report view: a read-only text document with links to the lines. */

import {
  type Disposable,
  DocumentLink,
  EventEmitter,
  languages,
  Range,
  Uri,
  ViewColumn,
  window,
  workspace,
} from "vscode";
import type { Server } from "./client.ts";
import { type ReportData, type ReportText, reportText } from "./reportText.ts";

const SCHEME = "forwardlens-report";
const ADDRESS = Uri.from({ scheme: SCHEME, path: "/ForwardLens report" });

export class ReportView implements Disposable {
  readonly #server: Server;
  readonly #changed = new EventEmitter<Uri>();
  readonly #registrations: readonly Disposable[];
  #report: ReportText = { text: "", links: [] };

  constructor(server: Server) {
    this.#server = server;
    this.#registrations = [
      workspace.registerTextDocumentContentProvider(SCHEME, {
        onDidChange: this.#changed.event,
        provideTextDocumentContent: () => this.#report.text,
      }),
      languages.registerDocumentLinkProvider({ scheme: SCHEME }, { provideDocumentLinks: () => this.#links() }),
    ];
  }

  /** Shows the run that a file belongs to, or the latest one. */
  async show(uri: string | undefined): Promise<void> {
    const client = await this.#server.ready();
    const data = await client?.sendRequest<ReportData | null>("forwardlens/report", uri === undefined ? {} : { uri });
    if (!data) {
      void window.showInformationMessage(
        "Nothing has been profiled yet; press Profile this forward() above a forward method.",
      );
      return;
    }
    this.#report = reportText(data);
    this.#changed.fire(ADDRESS);
    const document = await workspace.openTextDocument(ADDRESS);
    await window.showTextDocument(document, { viewColumn: ViewColumn.Beside, preview: true });
  }

  dispose(): void {
    for (const disposable of [...this.#registrations, this.#changed]) {
      disposable.dispose();
    }
  }

  #links(): DocumentLink[] {
    return this.#report.links.map(
      ({ row, start, end, target }) => new DocumentLink(new Range(row, start, row, end), Uri.parse(target)),
    );
  }
}
