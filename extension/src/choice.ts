/** What the user chose to run, and for how long that counts. Knows no editor but its memory. */

import type { Entry } from "./entries.ts";

/** A choice as it is kept. A launch configuration is kept by its name: what it says may change, and hold secrets. */
export type Choice =
  | { readonly kind: "entry"; readonly entry: string; readonly arguments?: readonly string[]; readonly typed?: true }
  | { readonly kind: "launch"; readonly name: string };

interface Remembered {
  /** The choice of each file. */
  readonly files: Readonly<Record<string, Choice>>;
  /** The latest one of all, which is likely for a file that has none yet. */
  readonly latest?: Choice;
}

/** Where an editor keeps what belongs to a workspace. */
export interface Memory {
  get(key: string): unknown;
  update(key: string, value: unknown): PromiseLike<void>;
}

/** The choices of one workspace folder. */
export class Choices {
  readonly #memory: Memory;
  readonly #key: string;

  constructor(memory: Memory, folder: string) {
    this.#memory = memory;
    this.#key = `choices:${folder}`;
  }

  /** What was chosen for a file, else what was chosen last in its folder if `exists` for this file too. */
  find(file: string, exists: (choice: Choice) => boolean): Choice | undefined {
    const { files, latest } = this.#remembered();
    return [files[file], latest].find((choice) => choice !== undefined && exists(choice));
  }

  async remember(file: string, choice: Choice): Promise<void> {
    const { files } = this.#remembered();
    // What was typed may have nothing to do with another file, and nothing can tell.
    const latest = choice.kind === "entry" && choice.typed ? {} : { latest: choice };
    await this.#memory.update(this.#key, { files: { ...files, [file]: choice }, ...latest });
  }

  async forget(file: string): Promise<void> {
    const { [file]: _, ...files } = this.#remembered().files;
    await this.#memory.update(this.#key, { files });
  }

  #remembered(): Remembered {
    const kept = this.#memory.get(this.#key) as Partial<Remembered> | undefined;
    return { files: kept?.files ?? {}, ...(kept?.latest ? { latest: kept.latest } : {}) };
  }
}

/** Whether a choice can still be made. What was typed by hand need not be among the candidates. */
export function isThere(choice: Choice, candidates: readonly Entry[], launches: readonly string[]): boolean {
  if (choice.kind === "launch") {
    return launches.includes(choice.name);
  }
  return choice.typed === true || candidates.some(({ entry }) => entry === choice.entry);
}
