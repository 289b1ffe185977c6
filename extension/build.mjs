// Bundles the extension into one file: `node extension/build.mjs [--watch]`.

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { context } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const watch = process.argv.includes("--watch");

const build = await context({
  entryPoints: [join(here, "src", "main.ts")],
  outfile: join(here, "dist", "main.cjs"),
  bundle: true,
  // The oldest editor in engines.vscode brings Node 20 and loads extensions with require().
  format: "cjs",
  platform: "node",
  target: "node20",
  external: ["vscode"],
  minify: !watch,
  sourcemap: watch,
  logLevel: "info",
});

if (watch) {
  await build.watch();
} else {
  await build.rebuild();
  await build.dispose();
}
