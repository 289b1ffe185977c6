/** The variables of the editor's configuration files. The editor has no call that fills them in. Knows no editor. */

import { basename, dirname, extname, relative, sep } from "node:path";

/** Where a configuration is used. */
export interface Place {
  readonly workspaceFolder: string;
  /** The folders of the workspace by name, for `${workspaceFolder:name}`. */
  readonly folders: Readonly<Record<string, string>>;
  readonly file: string;
  readonly home: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  setting(name: string): unknown;
}

export interface Expanded {
  readonly text: string;
  /** Variables that stand there as they are, since only a debug session or nobody can fill them in. */
  readonly unknown: readonly string[];
}

export function expand(text: string, place: Place): Expanded {
  const unknown: string[] = [];
  const expanded = text.replaceAll(/\$\{([^}]*)\}/g, (variable, inside: string) => {
    const value = lookUp(inside, place);
    if (value === undefined) {
      unknown.push(variable);
    }
    return value ?? variable;
  });
  return { text: expanded, unknown };
}

function lookUp(variable: string, place: Place): string | undefined {
  const [kind = "", ...rest] = variable.split(":");
  const argument = rest.join(":");
  switch (kind) {
    case "workspaceFolder":
      return argument === "" ? place.workspaceFolder : place.folders[argument];
    case "env":
      // As the editor does it: a variable that is not set is empty.
      return place.environment[argument] ?? "";
    case "config": {
      const value = place.setting(argument);
      return value === undefined || typeof value === "object" ? undefined : String(value);
    }
    default:
      return argument === "" ? plainValue(kind, place) : undefined;
  }
}

function plainValue(name: string, { workspaceFolder, file, home }: Place): string | undefined {
  const values: Readonly<Record<string, string>> = {
    "/": sep,
    cwd: workspaceFolder,
    file,
    fileBasename: basename(file),
    fileBasenameNoExtension: basename(file, extname(file)),
    fileDirname: dirname(file),
    fileDirnameBasename: basename(dirname(file)),
    fileExtname: extname(file),
    fileWorkspaceFolder: workspaceFolder,
    pathSeparator: sep,
    relativeFile: relative(workspaceFolder, file),
    relativeFileDirname: relative(workspaceFolder, dirname(file)) || ".",
    userHome: home,
    workspaceFolderBasename: basename(workspaceFolder),
    workspaceRoot: workspaceFolder,
  };
  return values[name];
}
