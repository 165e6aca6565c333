import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const built = "../src/cloche/doors/page/built";
const compressible = /\.(js|css|html|svg|ttf|wasm)$/;

/** Beside each file its compressed forms: the server sends them as they are. */
function compressed(): Plugin {
  let folder = "";
  return {
    name: "compressed",
    apply: "build",
    configResolved(config) {
      folder = resolve(config.root, config.build.outDir, "assets");
    },
    closeBundle() {
      for (const name of readdirSync(folder).filter((one) => compressible.test(one))) {
        const contents = readFileSync(join(folder, name));
        if (contents.length < 1024) continue;
        // The best quality takes ten times as long for the large ones, and saves a few per cent.
        const quality = contents.length > 300_000 ? 7 : 10;
        const small = brotliCompressSync(contents, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } });
        writeFileSync(join(folder, `${name}.br`), small);
        writeFileSync(join(folder, `${name}.gz`), gzipSync(contents, { level: 6 }));
      }
    },
  };
}

/** Every browser that runs the page takes WOFF2: the other forms of each font are left out. */
function onlyWoff2() {
  return {
    postcssPlugin: "only-woff2",
    Declaration: {
      src(declaration: { value: string }) {
        const first = declaration.value.split(",").find((one) => one.includes(".woff2"));
        if (first && first !== declaration.value) declaration.value = first.trim();
      },
    },
  };
}

export default defineConfig({
  plugins: [react(), tailwindcss(), compressed()],
  build: {
    outDir: built,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the policy allows no fonts from `data:`
    chunkSizeWarningLimit: 8000,
    reportCompressedSize: false,
    modulePreload: { polyfill: false },
    rollupOptions: { input: ["index.html", "shared.html"] }, // the playground; what was shared, for whoever has the link
  },
  css: { postcss: { plugins: [onlyWoff2()] } },
  worker: { format: "es" },
  server: {
    // `npm run dev` beside `cloche serve --no-auth`: the page is reloaded as it is edited.
    proxy: { "/v1": { target: process.env.CLOCHE_URL ?? "http://127.0.0.1:7500", ws: true } },
  },
});
