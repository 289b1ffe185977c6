/** Which Python runs the language server, and how it is started. Knows no editor. */

import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { exists } from "./interpreter.ts";

const OLDEST: readonly [number, number] = [3, 11];
const PROBE_MS = 20_000;

/** Everything that makes one server process differ from another. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
}

export interface Rejection {
  readonly python: string;
  readonly reason: string;
}

export type Resolution =
  | { readonly launch: Launch; readonly rejected: readonly Rejection[] }
  | { readonly launch: undefined; readonly rejected: readonly Rejection[] };

export interface Probe {
  readonly version: readonly [number, number];
  readonly missing: readonly string[];
}

/** The server's own code first, then the libraries that came with the extension, if any did. */
async function serverFolders(extensionRoot: string): Promise<string[]> {
  const libraries = join(extensionRoot, "bundled", "libs");
  return [join(extensionRoot, "server"), ...((await exists(libraries)) ? [libraries] : [])];
}

/** The first candidate that can run the server. Later candidates are not even asked for. */
export async function resolveLaunch(
  candidates: AsyncIterable<string>,
  extensionRoot: string,
  probe: (python: string, starter: string, folders: readonly string[]) => Promise<Probe> = askPython,
): Promise<Resolution> {
  const starter = join(extensionRoot, "extension", "launcher", "start.py");
  const folders = await serverFolders(extensionRoot);
  const rejected: Rejection[] = [];
  for await (const python of candidates) {
    const reason = await probe(python, starter, folders).then(objection, couldNotRun);
    if (reason === undefined) {
      return { launch: launchOf(python, starter, folders), rejected };
    }
    rejected.push({ python, reason });
  }
  return { launch: undefined, rejected };
}

/** Why this Python cannot run the server; undefined if it can. */
export function objection({ version, missing }: Probe): string | undefined {
  const [major, minor] = version;
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    return `it is Python ${major}.${minor}, ${OLDEST.join(".")} is the oldest that works`;
  }
  if (missing.includes("libcst.native")) {
    return `this build of the extension has no libcst for Python ${major}.${minor}`;
  }
  return missing.length > 0 ? `it lacks ${missing.join(", ")}` : undefined;
}

function launchOf(python: string, starter: string, folders: readonly string[]): Launch {
  return { command: python, args: pythonArguments(starter, "serve", folders), cwd: dirname(starter) };
}

/**
 * `-I` keeps the workspace, PYTHONPATH and the user's site folder out of the server's own imports. With libraries of our
 * own, `-S` leaves out this Python's too: reading them takes longer than anything else that happens before our code.
 */
function pythonArguments(starter: string, mode: "check" | "serve", folders: readonly string[]): string[] {
  return ["-I", ...(folders.length > 1 ? ["-S"] : []), "-X", "utf8", starter, mode, ...folders];
}

async function askPython(python: string, starter: string, folders: readonly string[]): Promise<Probe> {
  const { stdout } = await promisify(execFile)(python, pythonArguments(starter, "check", folders), {
    // The same folder as for the server itself: some Pythons are stand-ins that choose by it.
    cwd: dirname(starter),
    timeout: PROBE_MS,
    windowsHide: true,
  });
  return JSON.parse(stdout) as Probe;
}

/** What it said itself tells more than the command line that Node puts in front. */
function couldNotRun(problem: unknown): string {
  const { stderr, message } = problem as { stderr?: string; message?: string };
  const lines = (stderr?.trim() || message || String(problem)).split("\n");
  const telling = lines[0]?.startsWith("Traceback") ? lines.at(-1) : lines[0];
  return `it did not run: ${telling}`;
}
