/** Interpreters that the specs run the user's code with. */

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./editor.ts";

/** One that has torch: FORWARDLENS_TORCH_PYTHON, else this checkout's own environment. */
export function torchPython(): string {
  const python = process.env.FORWARDLENS_TORCH_PYTHON ?? join(ROOT, ".venv", "bin", "python");
  if (!existsSync(python)) {
    throw new Error(`no Python with torch at ${python}; FORWARDLENS_TORCH_PYTHON can name one`);
  }
  return python;
}

/** A new one with nothing but the standard library. */
export function bareEnvironment(folder: string): string {
  execFileSync(torchPython(), ["-m", "venv", "--without-pip", folder]);
  return join(folder, "bin", "python");
}
