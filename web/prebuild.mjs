// Bundles Monaco with its workers, and Vega, with esbuild into .monaco/, once per version: Vite takes a minute for them.
import { build } from "esbuild";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const { version } = JSON.parse(readFileSync("node_modules/monaco-editor/package.json", "utf8"));
const source = readFileSync("src/parts/editor/monaco-parts.js", "utf8");
const lock = readFileSync("package-lock.json", "utf8");
const stamp = `${version}\n${source}\n${/"node_modules\/vega-embed": \{\s*"version": "([^"]+)"/.exec(lock)?.[1]}`;
const target = ".monaco";

if (!existsSync(`${target}/stamp`) || readFileSync(`${target}/stamp`, "utf8") !== stamp) {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target);
  const common = { bundle: true, minify: true, format: "esm", target: "es2022", logLevel: "warning", outdir: target };
  const esm = "monaco-editor/esm/vs";
  await Promise.all([
    build({ ...common, entryPoints: { monaco: "src/parts/editor/monaco-parts.js" }, loader: { ".ttf": "file" }, assetNames: "[name]" }),
    build({ ...common, format: "iife", entryPoints: { vega: "src/parts/output/charts-vega.js" } }),
    build({
      ...common,
      entryPoints: {
        "editor.worker": `${esm}/editor/editor.worker.js`,
        "json.worker": `${esm}/language/json/json.worker.js`,
        "ts.worker": `${esm}/language/typescript/ts.worker.js`,
      },
    }),
  ]);
  writeFileSync(`${target}/stamp`, stamp);
}
