/** The one place that shows what ForwardLens is doing: the language status item. */

import { type Disposable, type LanguageStatusItem, LanguageStatusSeverity, languages } from "vscode";
import { describe, type Status } from "./statusText.ts";

const SEVERITY = {
  information: LanguageStatusSeverity.Information,
  warning: LanguageStatusSeverity.Warning,
  error: LanguageStatusSeverity.Error,
} as const;

export class StatusView implements Disposable {
  readonly #item: LanguageStatusItem = languages.createLanguageStatusItem("forwardlens", { language: "python" });
  #status: Status;

  constructor(status: Status) {
    this.#item.name = "ForwardLens";
    this.#status = status;
    this.update({});
  }

  update(change: Partial<Status>): void {
    this.#status = { ...this.#status, ...change };
    const { text, detail, severity, busy, action } = describe(this.#status);
    this.#item.text = text;
    this.#item.detail = detail;
    this.#item.severity = SEVERITY[severity];
    this.#item.busy = busy;
    this.#item.command = action;
  }

  dispose(): void {
    this.#item.dispose();
  }
}
