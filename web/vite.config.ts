// The page is built into the Python package: stable names, no source maps, nothing inlined (the server sends a strict
// Content-Security-Policy, so data: addresses and inline scripts would not load).
import { defineConfig } from "vite";

const server = process.env["INSPAN_SERVER"] ?? "http://127.0.0.1:7117";

export default defineConfig({
  build: {
    outDir: process.env["INSPAN_WEB_OUT"] ?? "../src/inspan/web",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    sourcemap: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: { proxy: { "/api": { target: server, changeOrigin: true } } },
});
