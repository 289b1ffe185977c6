/** Choices that are made before a run: which forward, and from which entry point. */

import type { Position, Range } from "vscode-languageserver-protocol";

export const PROFILE = "forwardlens.profile";

/** What `forwardlens.profile` takes, from a lens or from here. */
export interface ProfileRequest {
  readonly uri: string;
  readonly target?: string;
  readonly entry?: string;
}

/** A way to run the code of a file. The server lists them, the likeliest first. */
export interface Entry {
  readonly entry: string;
  readonly kind: "file" | "configured" | "workspace";
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
  const { uri, target, entry } = argument as Record<string, unknown>;
  if (typeof uri !== "string") {
    return undefined;
  }
  return {
    uri,
    ...(typeof target === "string" ? { target } : {}),
    ...(typeof entry === "string" ? { entry } : {}),
  };
}

/**
 * What to do about the entry point: use one, let the server decide, or ask the user.
 *
 * The file's own entry point comes before the project's default: the user is looking at this file. Without one the
 * server decides, which knows the default.
 */
export function chooseEntry(
  candidates: readonly Entry[],
  remembered: string | undefined,
): { readonly kind: "use"; readonly entry: string } | { readonly kind: "server" } | { readonly kind: "ask" } {
  if (candidates.some(({ entry }) => entry === remembered)) {
    return { kind: "use", entry: remembered ?? "" };
  }
  const [first] = candidates;
  const likely = candidates.filter(({ kind }) => kind === first?.kind);
  if (likely.length > 1) {
    return { kind: "ask" };
  }
  return first === undefined || first.kind === "configured" ? { kind: "server" } : { kind: "use", entry: first.entry };
}
