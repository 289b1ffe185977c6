/** Choices that are made before a run: which forward, and what runs it. Knows no editor. */

import type { Position, Range } from "vscode-languageserver-protocol";

export const PROFILE = "forwardlens.profile";

/** How a program is started, as far as that is not left to the project's configuration. */
export interface Start {
  readonly arguments?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly python?: string;
}

/** What `forwardlens.profile` takes, from a lens or from here. */
export interface ProfileRequest extends Start {
  readonly uri: string;
  readonly target?: string;
  readonly entry?: string;
}

export type EntryKind = "file" | "configured" | "workspace" | "script" | "test" | "self";

/** A way to run the code of a file. The server lists them, the likeliest first. */
export interface Entry {
  readonly entry: string;
  readonly kind: EntryKind;
  readonly line?: number;
}

interface LensLike {
  readonly range: Range;
  readonly command?: { readonly command: string; readonly arguments?: readonly unknown[] };
}

/** The lens that a cursor stands under: the last one that begins at or above it. */
export function lensAt<L extends LensLike>(lenses: readonly L[], cursor: Position): L | undefined {
  return lenses
    .filter((lens) => lens.range.start.line <= cursor.line)
    .reduce<L | undefined>(
      (best, lens) => (best && best.range.start.line > lens.range.start.line ? best : lens),
      undefined,
    );
}

/** The request a lens would make when pressed; undefined for another command's lens. */
export function requestOf(lens: LensLike | undefined): ProfileRequest | undefined {
  return lens?.command?.command === PROFILE ? asRequest(lens.command.arguments?.[0]) : undefined;
}

/** Commands can be called by anyone with anything. */
export function asRequest(argument: unknown): ProfileRequest | undefined {
  if (typeof argument !== "object" || argument === null) {
    return undefined;
  }
  const given = argument as Record<string, unknown>;
  if (typeof given.uri !== "string") {
    return undefined;
  }
  const texts = ["target", "entry", "cwd", "python"].filter((name) => typeof given[name] === "string");
  return {
    uri: given.uri,
    ...Object.fromEntries(texts.map((name) => [name, given[name] as string])),
    ...(isTexts(given.arguments) ? { arguments: given.arguments } : {}),
    ...(isTable(given.environment) ? { environment: given.environment } : {}),
  };
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

function isTable(value: unknown): value is Record<string, string> {
  return typeof value === "object" && value !== null && isTexts(Object.values(value));
}

/** Functions that build the model are made to be called; everything else is run only after the user chose it. */
const BUILDERS: readonly EntryKind[] = ["file", "configured", "workspace"];

/**
 * What to do without a choice of the user: run an entry point, let the server decide, or ask.
 *
 * The file's own entry point comes before the project's default: the user is looking at this file. Without one the
 * server decides, which knows the default.
 */
export function likeliest(
  candidates: readonly Entry[],
): { readonly kind: "use"; readonly entry: string } | { readonly kind: "server" } | { readonly kind: "ask" } {
  const [first] = candidates.filter(({ kind }) => BUILDERS.includes(kind));
  const likely = candidates.filter(({ kind }) => kind === first?.kind);
  if (first?.kind === "configured" && likely.length === 1) {
    return { kind: "server" };
  }
  return first !== undefined && likely.length === 1 ? { kind: "use", entry: first.entry } : { kind: "ask" };
}
