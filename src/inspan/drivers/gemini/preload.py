"""A module that Gemini CLI's Node loads first: it tells what the stream of frames leaves out.

Its stream (0.61) has neither thoughts nor exit codes, and does not say whether a written file is new. The records that
it appends to its session's file have all three, at the moment they happen. They are told on stdout as frames of ours.
Where the program finds nothing to hook, all goes on as before, with less told. Model calls it keeps at the gateway.
"""

SOURCE = r"""
import fs from "node:fs"
import os from "node:os"
import path from "node:path"
import { syncBuiltinESMExports } from "node:module"

delete process.env.NODE_OPTIONS // Of no concern to the programs that its tools run.
// Else what is still unwritten when it leaves is lost, its last frame too: seen with a result of 4 MB (0.61).
process.stdout._handle?.setBlocking?.(true)

const write = process.stdout.write.bind(process.stdout)
const say = (type, rest) => write(JSON.stringify({ type: "inspan_" + type, ...rest }) + "\n")
const responses = new Set(), calls = new Set()

const record = (line) => {
  const message = JSON.parse(line)
  if (message.type !== "gemini") return
  if (!responses.has(message.id)) {
    responses.add(message.id)
    say("response", { thoughts: message.thoughts ?? [], tokens: message.tokens ?? {} })
  }
  for (const call of message.toolCalls ?? []) {
    if (calls.has(call.id)) continue
    calls.add(call.id)
    const told = call.result?.[0]?.functionResponse?.response?.output ?? ""
    const shown = call.resultDisplay
    // What its frame has shown is not told twice; the end of it says how a command went.
    const rest = typeof shown === "string" && shown ? String(told).slice(-400) : String(told)
    say("tool", { tool_id: call.id, told: rest, created: shown?.isNewFile })
  }
}

const append = fs.appendFileSync
fs.appendFileSync = (file, data, ...rest) => {
  append(file, data, ...rest)
  try {
    if (path.basename(file).startsWith("session-")) record(data)
  } catch {} // Another file, or a record of another kind.
}

// A project's .env may not lead it to a proxy; where the project is not trusted, no variable of it may count at all.
const gateway = process.env.GOOGLE_GEMINI_BASE_URL
if (gateway) {
  for (const name of ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"]) process.env[name] ??= ""
  // Settings can give a model an address of its own (modelConfigs, httpOptions.baseUrl in 0.61), a project's too.
  const ask = globalThis.fetch, token = process.env.GEMINI_API_KEY
  const strays = ({ href, origin }, headers) =>
    origin !== new URL(gateway).origin &&
    (/\/models\/[^/]+:\w/.test(href) || (token && [...headers.values()].some((value) => value.includes(token))))
  globalThis.fetch = async (target, options) => {
    const url = new URL(target?.url ?? target)
    if (strays(url, new Headers(options?.headers ?? target?.headers)))
      throw new Error(`inspan: settings send model calls to ${url.host}, past the gateway`)
    return ask(target, options)
  }
}
const home = process.env.GEMINI_CLI_HOME || os.homedir()
const exists = fs.existsSync
if (process.argv.includes("--skip-trust")) {
  const own = [path.join(home, ".env"), path.join(home, ".gemini", ".env")]
  fs.existsSync = (file) => (path.basename(String(file)) !== ".env" || own.includes(file)) && exists(file)
}
syncBuiltinESMExports()

// A session to fork is named by its id: the program wants its file.
const fork = process.argv.indexOf("--session-file") + 1
if (fork && !exists(process.argv[fork])) {
  const id = process.argv[fork]
  const root = path.join(home, ".gemini", "tmp")
  const list = (folder) => {
    try {
      return fs.readdirSync(folder)
    } catch {
      return []
    }
  }
  const found = list(root)
    .map((project) => path.join(root, project, "chats"))
    .flatMap((folder) => list(folder).map((name) => path.join(folder, name)))
    .filter((file) => path.basename(file).startsWith("session-") && file.endsWith(`-${id.slice(0, 8)}.jsonl`))
    .filter((file) => fs.readFileSync(file, "utf8").includes(`"sessionId":"${id}"`))
    .sort((one, other) => fs.statSync(one).mtimeMs - fs.statSync(other).mtimeMs)
  process.argv[fork] = found.at(-1) ?? id
}
say("ready", {})
"""
