/** Which runs are in progress, and where each one's progress is shown. Knows no editor. */

import type {
  ProgressToken,
  WorkDoneProgressBegin,
  WorkDoneProgressEnd,
  WorkDoneProgressReport,
} from "vscode-languageserver-protocol";

type Step = WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd;
type Show = (message: string) => void;

/**
 * A run that the user asked for here has a notification of its own. The server begins its progress some time later, with
 * a token that it chose; the run that waits longest gets it. A token that no run waits for belongs to a run that the
 * server began by itself, after a save.
 */
export class Runs {
  readonly #onRunning: (running: boolean) => void;
  readonly #asked = new Set<Show>();
  readonly #waiting = new Set<Show>();
  readonly #begun = new Map<ProgressToken, Show | undefined>();
  #running = false;

  /** `onRunning` is told when the first run begins and when the last one has ended. */
  constructor(onRunning: (running: boolean) => void) {
    this.#onRunning = onRunning;
  }

  /** Does `work`, which is a run; what the server says about it meanwhile goes to `show`. */
  async during<T>(show: Show, work: () => Promise<T>): Promise<T> {
    this.#asked.add(show);
    this.#waiting.add(show);
    this.#changed();
    try {
      return await work();
    } finally {
      this.#asked.delete(show);
      this.#waiting.delete(show);
      this.#changed();
    }
  }

  /** One message of the server; `showElsewhere` lets it be shown the way other servers' progress is. */
  progress(token: ProgressToken, step: Step, showElsewhere: () => void): void {
    if (step.kind === "begin") {
      this.#begin(token);
    }
    const show = this.#begun.get(token);
    if (show === undefined) {
      showElsewhere();
    } else if (step.message !== undefined && step.kind !== "end") {
      show(step.message);
    }
    if (step.kind === "end") {
      this.#begun.delete(token);
      this.#changed();
    }
  }

  /** A server that is gone ends no progress any more. */
  forget(): void {
    this.#begun.clear();
    this.#changed();
  }

  #begin(token: ProgressToken): void {
    const [show] = this.#waiting;
    if (show !== undefined) {
      this.#waiting.delete(show);
    }
    this.#begun.set(token, show);
    this.#changed();
  }

  #changed(): void {
    const running = this.#asked.size > 0 || [...this.#begun.values()].includes(undefined);
    if (running !== this.#running) {
      this.#running = running;
      this.#onRunning(running);
    }
  }
}
