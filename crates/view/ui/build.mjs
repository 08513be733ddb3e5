// Builds the viewer into ../assets/viewer.js and the page of `nodespy serve` into ../../server/assets/fleet.js,
// each one script without any other file. With --tests,
// builds the tests into build/ instead. The same sources give the same bytes on every machine.

import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const shared = { absWorkingDir: here, bundle: true, target: "es2022", logLevel: "warning" };

if (process.argv.includes("--tests")) {
  const tests = readdirSync(join(here, "test")).filter((name) => name.endsWith(".test.ts"));
  await build({
    ...shared,
    entryPoints: tests.map((name) => `test/${name}`),
    outdir: "build",
    outExtension: { ".js": ".mjs" },
    platform: "node",
    format: "esm",
  });
} else {
  for (const [entry, outfile] of [
    ["src/index.ts", "../assets/viewer.js"],
    ["src/fleet/index.ts", "../../server/assets/fleet.js"],
  ]) {
    await build({
      ...shared,
      entryPoints: [entry],
      outfile,
      format: "iife",
      minify: true,
      charset: "ascii",
      legalComments: "none",
    });
  }
}
