"""A plugin for OpenCode that tells what its own stream of frames leaves out, and ends a turn that it would try again.

It has no setting against retries (1.18.33): 429 and 5xx are asked for six times in 75 s, whatever they say.
"""

_SOURCE = """\
export const inspan = async ({ client }) => {
  const partial = PARTIAL
  const children = new Set(), parents = {}, texts = new Set(), started = new Set()
  let busy = "", main = ""
  const say = (type, rest) => process.stdout.write(JSON.stringify({ type: "inspan_" + type, ...rest }) + "\\n")
  const fail = (sessionID, message) => {
    say("failed", { sessionID, message })
    return client.session.abort({ path: { id: main || sessionID } })
  }
  const begin = async (info) => {
    main = info.sessionID
    say("started", { sessionID: main, model: info.modelID })
    const servers = (await client.mcp.status().catch(() => ({}))).data ?? {}
    for (const [name, it] of Object.entries(servers))
      if (it.status !== "connected" && it.status !== "disabled") say("server", { name, message: it.error ?? it.status })
  }
  const tool = (part) => {
    if (part.tool === "task" && part.state.metadata?.sessionId) parents[part.state.metadata.sessionId] = part.callID
    if (part.state.status !== "running" || started.has(part.callID)) return
    started.add(part.callID)
    say("tool", { sessionID: main, part, parent: parents[part.sessionID] })
  }
  const known = (id) => main && (id === main || children.has(id))
  const ended = (part) =>
    part.type.startsWith("step-") || part.time?.end || ["completed", "error"].includes(part.state?.status)
  const empty = ({ type, reason, tokens }) =>
    type === "step-finish" && reason === "unknown" && !tokens.input && !tokens.output
  const handlers = {
    "session.created": ({ info }) => {
      if (info.parentID) children.add(info.id)
    },
    "message.updated": ({ info }) => {
      if (info.role === "assistant" && info.sessionID === busy && !main) return begin(info)
    },
    "message.part.updated": ({ part }) => {
      if (!known(part.sessionID)) return
      if (part.type === "tool") tool(part)
      if (part.type === "text" && part.sessionID === main) texts.add(part.id)
      if (empty(part)) return fail(part.sessionID, "the model's answer was empty or unreadable")
      if (ended(part)) say("part", { sessionID: main, part, parent: parents[part.sessionID] })
    },
    "message.part.delta": (it) => {
      if (partial && it.field === "text" && texts.has(it.partID)) say("delta", { id: it.partID, text: it.delta })
    },
    "session.status": ({ sessionID, status }) => {
      // What a fork copies comes before it is busy, and is no news.
      if (status.type === "busy") busy ||= sessionID
      if (status.type === "retry") return fail(sessionID, status.message)
    },
  }
  return {
    event: async ({ event }) => handlers[event.type]?.(event.properties),
    "shell.env": async (_, { env }) => {
      for (const name of HIDDEN) env[name] = undefined
    },
  }
}
"""


def build_plugin(*, partial: bool, hidden: tuple[str, ...]) -> bytes:
    """The plugin for one run; `hidden` are variables that the commands it runs do not get."""
    names = ", ".join(f'"{name}"' for name in hidden)
    return _SOURCE.replace("PARTIAL", "true" if partial else "false").replace("HIDDEN", f"[{names}]").encode()
