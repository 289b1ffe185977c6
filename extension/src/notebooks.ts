/** Notebooks are for later: where one has a module, the status says so, and nothing else happens. */

import {
  type Disposable,
  type LanguageStatusItem,
  languages,
  type NotebookDocument,
  type TextDocument,
  window,
  workspace,
} from "vscode";
import { hasModule } from "./notebookText.ts";

export const NOTEBOOKS_LATER =
  "ForwardLens cannot profile notebooks yet; put the class into a .py file and profile it there.";

export function isNotebookCell(document: TextDocument | undefined): boolean {
  return document?.uri.scheme === "vscode-notebook-cell";
}

export class NotebookStatus implements Disposable {
  readonly #listeners: readonly Disposable[];
  #item: LanguageStatusItem | undefined;

  constructor() {
    this.#listeners = [
      window.onDidChangeActiveNotebookEditor((editor) => this.#show(editor?.notebook)),
      workspace.onDidChangeNotebookDocument(({ notebook }) => {
        if (notebook === window.activeNotebookEditor?.notebook) {
          this.#show(notebook);
        }
      }),
    ];
    this.#show(window.activeNotebookEditor?.notebook);
  }

  dispose(): void {
    this.#item?.dispose();
    for (const listener of this.#listeners) {
      listener.dispose();
    }
  }

  #show(notebook: NotebookDocument | undefined): void {
    const wanted = notebook?.getCells().some(({ document }) => isPython(document) && hasModule(document.getText()));
    if (wanted && this.#item === undefined) {
      this.#item = languages.createLanguageStatusItem("forwardlens.notebook", {
        scheme: "vscode-notebook-cell",
        language: "python",
      });
      this.#item.name = "ForwardLens";
      this.#item.text = "Not in notebooks yet";
      this.#item.detail = "Put the class into a .py file to profile it";
      this.#item.accessibilityInformation = { label: NOTEBOOKS_LATER };
    } else if (!wanted) {
      this.#item?.dispose();
      this.#item = undefined;
    }
  }
}

function isPython({ languageId }: TextDocument): boolean {
  return languageId === "python";
}
