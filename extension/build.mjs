// Bundles the extension into one file and the report's page into another: `node extension/build.mjs [--watch]`.

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { context } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const watch = process.argv.includes("--watch");
const both = { bundle: true, minify: !watch, sourcemap: watch, logLevel: "info" };

const extension = {
  ...both,
  entryPoints: [join(here, "src", "main.ts")],
  outfile: join(here, "dist", "main.cjs"),
  // The oldest editor in engines.vscode brings Node 20 and loads extensions with require().
  format: "cjs",
  platform: "node",
  target: "node20",
  external: ["vscode"],
};

const page = {
  ...both,
  entryPoints: { report: join(here, "webview", "main.tsx") },
  outdir: join(here, "dist"),
  format: "iife",
  platform: "browser",
  // The browser inside that editor.
  target: "chrome124",
  jsx: "automatic",
  jsxImportSource: "preact",
};

for (const options of [extension, page]) {
  const build = await context(options);
  if (watch) {
    await build.watch();
  } else {
    await build.rebuild();
    await build.dispose();
  }
}
