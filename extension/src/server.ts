/** Which Python runs the language server, and how it is started. Knows no editor. */

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { exists, within } from "./interpreter.ts";

const OLDEST: readonly [number, number] = [3, 11];
const PATIENCE_MS = 20_000;

/** What the launcher says of the Python that runs it, before it starts the server. */
export interface Facts {
  readonly version: readonly [number, number];
  readonly missing: readonly string[];
  /** The program itself. */
  readonly executable: string;
}

/** A process that has said what it is and goes on to be the server. */
export interface Started {
  /** As it was asked for, which may be a stand-in. */
  readonly python: string;
  readonly facts: Facts;
  readonly process: ChildProcessWithoutNullStreams;
}

export interface Rejection {
  readonly python: string;
  readonly reason: string;
}

export interface Found {
  /** Undefined if no candidate can run the server. */
  readonly started: Started | undefined;
  readonly rejected: readonly Rejection[];
}

/** Starts the server with the first candidate that can run it. Later candidates are not even asked for. */
export async function startFirst(
  candidates: AsyncIterable<string>,
  start: (python: string) => Promise<Started>,
): Promise<Found> {
  const rejected: Rejection[] = [];
  for await (const python of candidates) {
    try {
      const started = await start(python);
      const reason = objection(started.facts);
      if (reason === undefined) {
        return { started, rejected };
      }
      started.process.kill();
      rejected.push({ python, reason });
    } catch (problem) {
      rejected.push({ python, reason: `it did not run: ${(problem as Error).message}` });
    }
  }
  return { started: undefined, rejected };
}

/** Why this Python cannot run the server; undefined if it can. */
export function objection({ version, missing }: Facts): string | undefined {
  const [major, minor] = version;
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    return `it is Python ${major}.${minor}, ${OLDEST.join(".")} is the oldest that works`;
  }
  if (missing.includes("libcst.native")) {
    return `this build of the extension has no libcst for Python ${major}.${minor}`;
  }
  return missing.length > 0 ? `it lacks ${missing.join(", ")}` : undefined;
}

/**
 * Starts one Python and waits for its facts. What it writes to standard error after them goes to `onLine`; one that
 * gives none is ended, and the error says what it wrote.
 */
export async function startPython(
  python: string,
  extensionRoot: string,
  onLine: (line: string) => void,
): Promise<Started> {
  const starter = join(extensionRoot, "extension", "launcher", "start.py");
  // Some Pythons are stand-ins that choose by the folder they are started in: it must not be one of the user's.
  const child = spawn(python, await pythonArguments(starter, extensionRoot), {
    cwd: dirname(starter),
    windowsHide: true,
  });
  try {
    return { python, facts: await within(PATIENCE_MS, factsOf(child, onLine)), process: child };
  } catch (problem) {
    child.kill();
    throw problem;
  }
}

/**
 * `-I` keeps the workspace, PYTHONPATH and the user's site folder out of the server's own imports. With libraries of our
 * own, `-S` leaves out this Python's too: reading them takes longer than anything else that happens before our code.
 */
async function pythonArguments(starter: string, extensionRoot: string): Promise<string[]> {
  const server = join(extensionRoot, "server");
  const libraries = join(extensionRoot, "bundled", "libs");
  const isBundled = await exists(libraries);
  return ["-I", ...(isBundled ? ["-S"] : []), "-X", "utf8", starter, server, ...(isBundled ? [libraries] : [])];
}

function factsOf(child: ChildProcessWithoutNullStreams, onLine: (line: string) => void): Promise<Facts> {
  return new Promise((resolve, reject) => {
    const before: string[] = [];
    let isKnown = false;
    createInterface({ input: child.stderr }).on("line", (line) => {
      const facts = isKnown ? undefined : parseFacts(line);
      if (facts !== undefined) {
        isKnown = true;
        resolve(facts);
      } else if (isKnown) {
        onLine(line);
      } else {
        before.push(line);
      }
    });
    child.on("error", reject);
    child.on("close", (code) => reject(new Error(telling(before) ?? `it ended with ${code} and said nothing`)));
  });
}

function parseFacts(line: string): Facts | undefined {
  try {
    const parsed: unknown = JSON.parse(line);
    return typeof parsed === "object" && parsed !== null && "version" in parsed ? (parsed as Facts) : undefined;
  } catch {
    return undefined;
  }
}

/** The line of a failed start that says most: the last one of a traceback, else the first. */
function telling(lines: readonly string[]): string | undefined {
  const said = lines.filter((line) => line.trim() !== "");
  return said[0]?.startsWith("Traceback") ? said.at(-1) : said[0];
}
