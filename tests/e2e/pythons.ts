/** Interpreters that the specs run the user's code with. */

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
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

/** A new one with nothing but the standard library, not even pip. */
export function bareEnvironment(folder: string): string {
  execFileSync(torchPython(), ["-m", "venv", "--without-pip", folder]);
  return join(folder, "bin", "python");
}

/** A new one with torch, what torch itself needs, and nothing else: no pip and none of our libraries. */
export function torchOnlyEnvironment(folder: string): string {
  const python = bareEnvironment(folder);
  const site = execFileSync(python, ["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], {
    encoding: "utf8",
  });
  execFileSync(torchPython(), ["-c", LINK_TORCH, site.trim()]);
  return python;
}

export function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), "forwardlens-venv-"));
}

/** Links instead of copies: torch alone is several hundred megabytes. */
const LINK_TORCH = `
import importlib.metadata, pathlib, re, sys

site, pending, seen = pathlib.Path(sys.argv[1]), ["torch"], set()
while pending:
    name = pending.pop()
    try:
        package = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        continue  # needed on another platform only
    if package.name in seen:
        continue
    seen.add(package.name)
    pending += [re.match(r"[\\w.-]+", text)[0] for text in package.requires or () if "extra ==" not in text]
    for top in {file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")}:
        if not (site / top).exists():
            (site / top).symlink_to(package.locate_file(top))
`;
