/** Where the user's interpreter comes from: the order of the sources, without the editor. */

import { access } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join, relative, sep } from "node:path";

export type Origin = "setting" | "Python extension" | "workspace" | "PATH";

export interface Interpreter {
  readonly path: string;
  readonly origin: Origin;
}

export interface Source {
  readonly origin: Origin;
  find(): Promise<string | undefined>;
}

/**
 * The first source with an answer. One that fails or takes longer than `patienceMs` is passed over, so that an
 * environment extension which is still busy searching the disk cannot hold up a run.
 */
export async function firstFound(
  sources: readonly Source[],
  patienceMs: number,
  onProblem: (origin: Origin, problem: unknown) => void,
): Promise<Interpreter | undefined> {
  for (const source of sources) {
    try {
      const path = await within(patienceMs, source.find());
      if (path) {
        return { path, origin: source.origin };
      }
    } catch (problem) {
      onProblem(source.origin, problem);
    }
  }
  return undefined;
}

export async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Prints the version and whether there is a torch, which is looked for and not imported. */
export const PYTHON_FACTS =
  "import sys, importlib.util as u; print('%d.%d.%d' % sys.version_info[:3], int(u.find_spec('torch') is not None))";

/** What `PYTHON_FACTS` printed, as a row says it. */
export function describePython(printed: string): string {
  const [, version, torch] = /^(\d+\.\d+\.\d+) ([01])\s*$/.exec(printed) ?? [];
  return version === undefined
    ? "does not answer like a Python"
    : `Python ${version}, ${torch === "1" ? "has" : "no"} torch`;
}

/** `~` and `${workspaceFolder}` in a setting that holds a path. */
export function expandPath(setting: string, workspaceFolder: string | undefined, home = homedir()): string {
  const expanded = setting.trim().replaceAll("$" + "{workspaceFolder}", workspaceFolder ?? "");
  return /^~(?=$|[\\/])/.test(expanded) ? home + expanded.slice(1) : expanded;
}

/** A path as seen from a folder; undefined for one outside it, such as one in a folder whose name begins alike. */
export function pathWithin(folder: string, path: string): string | undefined {
  const inside = relative(folder, path);
  // On Windows a path on another drive stays absolute.
  return inside.split(sep)[0] === ".." || isAbsolute(inside) ? undefined : inside;
}

/** The Python inside a virtual environment. */
export function venvPython(folder: string, platform: NodeJS.Platform = process.platform): string {
  return platform === "win32" ? join(folder, "Scripts", "python.exe") : join(folder, "bin", "python");
}

export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** All programs of these names on PATH, the first name first. */
export async function onPath(
  names: readonly string[],
  path = process.env.PATH ?? "",
  platform: NodeJS.Platform = process.platform,
): Promise<string[]> {
  const suffix = platform === "win32" ? ".exe" : "";
  // A relative folder would be one of the workspace.
  const folders = path.split(delimiter).filter(isAbsolute);
  const candidates = names.flatMap((name) => folders.map((folder) => join(folder, name + suffix)));
  const found = await Promise.all(candidates.map(exists));
  return candidates.filter((_candidate, index) => found[index]);
}
