"""What Pi has no flag for, as an extension of its own that is loaded for one run: a file beside the user's settings.

It leads one provider to the gateway, gives MCP servers, keeps the rules for single tools, asks about them where a run
wants that, asks for shorter answers where a budget counts, and stops Pi from trying a failed call again.
"""

import msgspec

ASKING_TITLE = "inspan: may this tool be used?"
"""The title of the dialog by which the extension asks: what it asks about is the placeholder, as JSON."""
_RUN = "__RUN__"
_TITLE = "__TITLE__"
_SOURCE = r"""import { existsSync } from "node:fs";
import { relative, resolve } from "node:path";

const RUN = __RUN__;
const TITLE = __TITLE__;
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
    if (!pi.registerMcpServer) throw new Error("this version has no MCP servers");
    pi.registerMcpServer(name, { ...filled(server), exposure: "direct" });
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

  // It asks for the longest answer that a model can give, 128,000 tokens, and a budget would reserve all of it (1.5).
  if (RUN.largestAnswer) pi.on("before_provider_request", ({ payload }) => shortened(payload, RUN.largestAnswer));

  pi.on("cache_warming_decision", () => ({ action: "stop" }));

  pi.on("tool_call", (event, ctx) => {
    const problem = judged(event.toolName, event.input, ctx.cwd);
    if (problem) return refused(problem);
    if (RUN.unasked && !RUN.unasked.includes(event.toolName)) return asked(event, ctx).then(settle);
    return settle({});

    function settle({ refusal, ends }) {
      if (refusal) return { ...refused(refusal), terminate: ends };
      const path = event.toolName === "write" ? resolve(ctx.cwd, String(event.input.path)) : "";
      if (path && !existsSync(path)) news.add(event.toolCallId);
    }
  });

  pi.on("tool_result", (event) => {
    if (news.delete(event.toolCallId) && !event.isError) return { details: { ...event.details, added: true } };
  });
}

// It puts variables into headers and `env` itself.
function filled({ url, args, ...rest }) {
  const fill = (word) => word.replace(/^\$\{(INSPAN_MCP_\w+)\}$/, (_, name) => process.env[name]);
  return { ...rest, ...(url && { url: fill(url) }), ...(args && { args: args.map(fill) }) };
}

// The request with room for so many tokens of answer at most. Thinking has to fit in, and takes 1,024 tokens at least.
function shortened(payload, most) {
  const lower = (value) => (typeof value === "number" ? Math.min(value, most) : value);
  const lowered = (object, names) =>
    Object.fromEntries(names.filter((name) => name in object).map((name) => [name, lower(object[name])]));
  const changed = { ...payload, ...lowered(payload, ["max_tokens", "max_completion_tokens", "max_output_tokens"]) };
  for (const name of ["config", "generationConfig"]) {
    if (payload[name]) changed[name] = { ...payload[name], ...lowered(payload[name], ["maxOutputTokens"]) };
  }
  if (payload.thinking?.budget_tokens >= most) {
    const room = most - 1024;
    changed.thinking = room >= 1024 ? { ...payload.thinking, budget_tokens: room } : { type: "disabled" };
  }
  return changed;
}

function refused(problem) {
  return { block: true, reason: `Not allowed in this run: ${problem}` };
}

// Why not, if so, and whether the turn is to end with it. Where nobody can be asked, as in `--print`, nobody answers.
async function asked(event, ctx) {
  const question = { id: event.toolCallId, tool: event.toolName, input: event.input, cwd: ctx.cwd };
  const words = await ctx.ui.input(TITLE, JSON.stringify(question), { signal: ctx.signal });
  const { allowed, reason, input, ends } = words ? JSON.parse(words) : { reason: "nobody answered" };
  if (allowed !== true) return { refusal: reason || "the user said no", ends: ends === true };
  if (!input) return {};
  for (const name of Object.keys(event.input)) delete event.input[name];
  Object.assign(event.input, input);
  return { refusal: judged(event.toolName, event.input, ctx.cwd) };
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


def build_extension(run: dict[str, object]) -> bytes:
    """The extension for one run. It holds names of variables, and no secret."""
    title = msgspec.json.encode(ASKING_TITLE).decode()
    return _SOURCE.replace(_TITLE, title, 1).replace(_RUN, msgspec.json.encode(run).decode(), 1).encode()
