// The tests of what needs no browser: made into plain JavaScript by the compiler that checks them, then run by node.
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync, writeFileSync, mkdirSync } from "node:fs";

const out = ".tests";
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
writeFileSync(`${out}/package.json`, '{"type":"module"}');
const run = (program, ...args) => spawnSync(program, args, { stdio: "inherit" }).status ?? 1;
const status = run("node_modules/.bin/tsc", "-p", "tsconfig.test.json");
if (status) process.exit(status);
const tests = readdirSync(`${out}/test`).filter((name) => name.endsWith(".test.js"));
process.exit(run(process.execPath, "--test", ...tests.map((name) => `${out}/test/${name}`)));
