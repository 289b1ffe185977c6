/** The one place that shows what ForwardLens is doing: the language status item, for the folder of the active file. */

import {
  type Disposable,
  type LanguageStatusItem,
  LanguageStatusSeverity,
  languages,
  type TextEditor,
  Uri,
  window,
} from "vscode";
import { folderKey } from "./folders.ts";
import {
  describe,
  describeInterpreter,
  type FolderStatus,
  QUIET,
  type ServerState,
  type Status,
  type StatusText,
} from "./statusText.ts";

const SEVERITY = {
  information: LanguageStatusSeverity.Information,
  warning: LanguageStatusSeverity.Warning,
  error: LanguageStatusSeverity.Error,
} as const;

const FILES = { scheme: "file", language: "python" } as const;

interface Everywhere {
  readonly server: ServerState;
  readonly trusted: boolean;
}

export class StatusView implements Disposable {
  readonly #item = languages.createLanguageStatusItem("forwardlens", FILES);
  #interpreter: LanguageStatusItem | undefined;
  readonly #folders = new Map<string, FolderStatus>();
  readonly #onRunning: (running: boolean) => void;
  readonly #listener: Disposable;
  #everywhere: Everywhere;
  #shown: string | undefined;

  /** `onRunning` is told whether there is a run in any folder, whenever that may have changed. */
  constructor(everywhere: Everywhere, onRunning: (running: boolean) => void) {
    this.#item.name = "ForwardLens";
    this.#everywhere = everywhere;
    this.#onRunning = onRunning;
    this.#listener = window.onDidChangeActiveTextEditor((editor) => this.#follow(editor));
    this.#follow(window.activeTextEditor);
  }

  update(change: Partial<Everywhere>): void {
    this.#everywhere = { ...this.#everywhere, ...change };
    this.#draw();
  }

  /** What is new in the folder of a file; without one, in the folder that is shown. */
  updateFolder(uri: string | undefined, change: Partial<FolderStatus>): void {
    const key = uri === undefined ? this.#shown : folderKey(uri);
    if (key !== undefined) {
      this.#folders.set(key, { ...(this.#folders.get(key) ?? QUIET), ...change });
      this.#changed();
    }
  }

  updateFolders(change: Partial<FolderStatus>): void {
    for (const [key, status] of this.#folders) {
      this.#folders.set(key, { ...status, ...change });
    }
    this.#changed();
  }

  dispose(): void {
    this.#listener.dispose();
    this.#item.dispose();
    this.#interpreter?.dispose();
  }

  /** The log, the report and other views are no files of a folder; the last one that was stays. */
  #follow(editor: TextEditor | undefined): void {
    if (editor?.document.uri.scheme === "file") {
      this.#shown = folderKey(editor.document.uri.toString());
    }
    this.#draw();
  }

  #changed(): void {
    this.#onRunning([...this.#folders.values()].some(({ running }) => running));
    this.#draw();
  }

  #draw(): void {
    const folder = (this.#shown !== undefined && this.#folders.get(this.#shown)) || QUIET;
    const where = this.#shown === undefined ? undefined : Uri.parse(this.#shown).fsPath;
    const status: Status = { ...this.#everywhere, ...folder, folder: where };
    fill(this.#item, describe(status));
    const interpreter = describeInterpreter(status);
    if (interpreter === undefined) {
      this.#interpreter?.dispose();
      this.#interpreter = undefined;
    } else {
      this.#interpreter ??= languages.createLanguageStatusItem("forwardlens.interpreter", FILES);
      this.#interpreter.name = "ForwardLens: interpreter";
      fill(this.#interpreter, interpreter);
    }
  }
}

function fill(item: LanguageStatusItem, { text, detail, label, severity, busy, action }: StatusText): void {
  item.text = text;
  item.detail = detail;
  item.severity = SEVERITY[severity];
  item.busy = busy;
  item.command = action;
  item.accessibilityInformation = { label };
}
