"""What Pi has no flag for, as an extension of its own that is loaded for one run: a file beside the user's settings.

It leads one provider to the gateway, gives servers of tools, keeps the rules for single tools, and stops Pi from trying
a failed call again.
"""

import msgspec

_RUN = "__RUN__"
_SOURCE = r"""import { existsSync } from "node:fs";
import { relative, resolve } from "node:path";

const RUN = __RUN__;
const TOO_LONG = /too (long|large)|context.?(length|window)|maximum (context|prompt)|too many (input )?tokens/i;
const SHELL_SIGNS = /[;&|<>`$(){}\\\n]/;

delete process.env.JITI_FS_CACHE;

export default function (pi) {
  const news = new Set();
  let looked = false;

  if (RUN.provider) {
    pi.registerProvider(RUN.provider, { baseUrl: RUN.url, headers: RUN.headers });
    // A proxy in the user's settings (httpProxy) would be asked for loopback, too (1.5.0).
    const listed = process.env.no_proxy || process.env.NO_PROXY;
    process.env.no_proxy = process.env.NO_PROXY = listed ? `${listed},127.0.0.1` : "127.0.0.1";
  }
  for (const [name, server] of Object.entries(RUN.servers)) {
    if (!pi.registerMcpServer) throw new Error("this version has no servers of tools");
    pi.registerMcpServer(name, { ...server, exposure: "direct" });
  }

  pi.on("session_start", (_event, ctx) => {
    if (!RUN.provider || !ctx.model || ctx.model.provider === RUN.provider) return;
    const model = `${ctx.model.provider}/${ctx.model.id}`;
    console.error(`inspan: ${model} does not go through the gateway: choose a model of ${RUN.provider}`);
    process.exit(1);
  });

  pi.on("turn_start", () => {
    if (looked) return;
    looked = true;
    const names = pi.getAllTools().map((tool) => tool.name);
    for (const name of Object.keys(RUN.servers)) {
      const prefix = `mcp__${name.replace(/\W/g, "_")}__`;
      if (names.some((each) => each.startsWith(prefix))) continue;
      console.error(`inspan: server ${name}: it did not start, or has no tools`);
    }
  });

  pi.on("agent_end", (event, ctx) => {
    const last = event.messages.findLast((message) => message.role === "assistant");
    if (last?.stopReason === "error" && !TOO_LONG.test(last.errorMessage ?? "")) ctx.abort();
  });

  pi.on("cache_warming_decision", () => ({ action: "stop" }));

  pi.on("tool_call", (event, ctx) => {
    const problem = judged(event.toolName, event.input, ctx.cwd);
    if (problem) return { block: true, reason: `Not allowed in this run: ${problem}` };
    const path = event.toolName === "write" ? resolve(ctx.cwd, String(event.input.path)) : "";
    if (path && !existsSync(path)) news.add(event.toolCallId);
  });

  pi.on("tool_result", (event) => {
    if (news.delete(event.toolCallId) && !event.isError) return { details: { ...event.details, added: true } };
  });
}

function judged(tool, input, cwd) {
  const path = relative(cwd, resolve(cwd, String(input.path ?? "")));
  const text = tool === "bash" ? String(input.command ?? "").trim() : path;
  const parts = tool === "bash" ? text.split(/[;&|\n]+/).map((part) => part.trim()) : [text];
  const denied = (RUN.denied[tool] ?? []).find((rule) => parts.some((part) => fits(rule, part, tool)));
  if (denied) return `${tool} ${denied}`;
  const allowed = RUN.allowed[tool];
  if (!allowed) return "";
  if (tool === "bash" && SHELL_SIGNS.test(text)) return "more than one plain command";
  return allowed.some((rule) => fits(rule, text, tool)) ? "" : `${tool} ${text}`;
}

function fits(rule, text, tool) {
  const any = tool === "bash" ? ".*" : "[^/]*";
  const words = rule
    .replace(/:\*$/, " *")
    .replace(/[.+?^${}()|[\]\\]/g, "\\$&")
    .replace(/\*\*/g, "\0")
    .replace(/\*/g, any)
    .replace(/\0/g, ".*")
    .replace(/ \.\*$/, "( .*)?");
  return new RegExp(`^${words}$`, "s").test(text);
}
"""


def extension(run: dict[str, object]) -> bytes:
    """The extension for one run. It holds names of variables, and no secret."""
    return _SOURCE.replace(_RUN, msgspec.json.encode(run).decode(), 1).encode()
