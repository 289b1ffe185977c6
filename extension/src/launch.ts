/** launch.json's Python configurations as things to profile. Knows no editor. */

import { resolve, sep } from "node:path";
import { parse } from "dotenv";
import parseArguments from "string-argv";
import type { Start } from "./entries.ts";
import { pathWithin } from "./interpreter.ts";
import { expand, type Place } from "./variables.ts";

/** A configuration as its author wrote it. */
export interface LaunchConfiguration {
  readonly name: string;
  readonly program?: string;
  readonly module?: string;
  readonly args?: string | readonly unknown[];
  readonly env?: Readonly<Record<string, unknown>>;
  readonly envFile?: string;
  readonly cwd?: string;
  readonly python?: string | readonly string[];
}

export type Launch =
  | { readonly start: Start & { readonly entry: string } }
  /** Why it cannot be used, as a sentence. */
  | { readonly problem: string };

/** The configurations that start a Python program; others attach, or start something else. */
export function pythonLaunches(configurations: unknown): LaunchConfiguration[] {
  return Array.isArray(configurations) ? configurations.filter(isPythonLaunch) : [];
}

function isPythonLaunch(value: unknown): value is LaunchConfiguration {
  const { name, type, request, program, module } = (value ?? {}) as Record<string, unknown>;
  const starts = typeof program === "string" || typeof module === "string";
  return typeof name === "string" && (type === "debugpy" || type === "python") && request === "launch" && starts;
}

/** How a configuration starts its program, at `place`. `read` gives the text of a file. */
export async function resolveLaunch(
  configuration: LaunchConfiguration,
  place: Place,
  read: (path: string) => Promise<string>,
): Promise<Launch> {
  const unknown: string[] = [];
  const fill = (text: string) => {
    const expanded = expand(text, place);
    unknown.push(...expanded.unknown);
    return expanded.text;
  };
  const cwd = configuration.cwd === undefined ? undefined : resolve(place.workspaceFolder, fill(configuration.cwd));
  const args = argumentsOf(configuration.args, fill);
  const { entry, rest } = whatToRun(configuration, args, cwd, place, fill);
  const own = Object.entries(configuration.env ?? {}).map(
    ([name, value]) => [name, fill(String(value ?? ""))] as const,
  );
  const python = pythonOf(configuration.python, fill);
  const file = configuration.envFile === undefined ? undefined : fill(configuration.envFile);
  if (unknown.length > 0) {
    return { problem: explain(configuration.name, unknown) };
  }
  let fromFile: Record<string, string> = {};
  if (file !== undefined) {
    try {
      fromFile = parse(await read(resolve(place.workspaceFolder, file)));
    } catch {
      return { problem: `“${configuration.name}” reads its environment from ${file}, which cannot be read.` };
    }
  }
  const environment = { ...fromFile, ...Object.fromEntries(own) };
  return {
    start: {
      entry,
      arguments: rest,
      environment,
      ...(cwd === undefined ? {} : { cwd }),
      ...(python === undefined ? {} : { python }),
    },
  };
}

/** A test that pytest is started with is profiled as that test; other modules as `python -m` runs them. */
function whatToRun(
  { program, module }: LaunchConfiguration,
  args: readonly string[],
  cwd: string | undefined,
  place: Place,
  fill: (text: string) => string,
): { readonly entry: string; readonly rest: readonly string[] } {
  if (program !== undefined) {
    return { entry: inFolder(resolve(cwd ?? place.workspaceFolder, fill(program)), place.workspaceFolder), rest: args };
  }
  const name = fill(module ?? "");
  const test = name === "pytest" ? args.find((argument) => argument.includes(".py::")) : undefined;
  return test === undefined ? { entry: `-m ${name}`, rest: args } : { entry: test, rest: [] };
}

/** As entries are written: below the folder, with forward slashes. */
function inFolder(path: string, folder: string): string {
  return pathWithin(folder, path)?.split(sep).join("/") ?? path;
}

function argumentsOf(args: LaunchConfiguration["args"], fill: (text: string) => string): string[] {
  return typeof args === "string" ? parseArguments(fill(args)) : (args ?? []).map((item) => fill(String(item)));
}

function pythonOf(python: LaunchConfiguration["python"], fill: (text: string) => string): string | undefined {
  const path = typeof python === "string" ? python : python?.[0];
  // The default of the Python debugger's own schema: the interpreter that is selected, which is looked up anyway.
  return path === undefined || path.startsWith("$" + "{command:python.interpreterPath}") ? undefined : fill(path);
}

function explain(name: string, unknown: readonly string[]): string {
  const [first] = unknown;
  const filled = /^\$\{(command|input):/.test(first ?? "")
    ? "which only a debug session fills in; write the value into launch.json to profile it"
    : "which is not known here";
  return `“${name}” uses ${first}, ${filled}.`;
}
