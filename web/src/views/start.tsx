// Starting a run: what is to be done, where, and by whom. What the server refuses is said at its field.
import { useEffect, useMemo, useState } from "preact/hooks";
import { create, get, Problem, serverInfo } from "../api/client.ts";
import type { AgentInfo, NewRun, RunDetails } from "../api/values.ts";
import { useCell } from "../cell.ts";
import { go } from "../navigate.ts";
import { TextArea, Trouble } from "../parts/small.tsx";
import { runAddress } from "../routes.ts";
import { refreshSoon, runList } from "../runs_store.ts";
import { recentFolders, rememberFolder } from "../settings.ts";
import { visible } from "../text/visible.ts";
import { useTitle } from "../title.ts";
import { makeId } from "./run.tsx";

interface Wanted {
  prompt: string;
  cwd: string;
  agent: string;
  mode: string;
  model: string;
  sandbox: string;
  budget: string;
  session: boolean;
  ask: boolean;
  login: boolean;
  modelFrom: string;
}

const SANDBOXES = [
  ["", "what the agent needs"],
  ["worktree", "a git worktree of its own"],
  ["bwrap", "bwrap: a boundary around it"],
  ["worktree+bwrap", "both"],
  ["none", "none"],
] as const;
const MODES: Readonly<Record<string, string>> = {
  exec: "exec: may do everything that you may do",
  review: "review: reads and runs, edits nothing",
  complete: "complete: answers, without tools",
};
const FIELDS = ["prompt", "cwd", "agent", "mode", "model", "sandbox", "budgets", "session", "ask", "login", "model_from"];

export function StartPage({ from }: { from: string }) {
  const info = useCell(serverInfo);
  const list = useCell(runList);
  const [agents, setAgents] = useState<AgentInfo[]>([]);
  const [wanted, setWanted] = useState<Wanted>({
    prompt: "",
    cwd: recentFolders()[0] ?? "",
    agent: "",
    mode: "exec",
    model: "",
    sandbox: "",
    budget: "",
    session: false,
    ask: false,
    login: false,
    modelFrom: "",
  });
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const key = useMemo(makeId, [JSON.stringify(wanted)]);
  useTitle("new run");

  const set = (change: Partial<Wanted>): void => setWanted((before) => ({ ...before, ...change }));
  useEffect(() => {
    get<{ agents: AgentInfo[] }>("/agents").then((found) => setAgents(found.agents), () => undefined);
  }, []);
  useEffect(() => {
    if (!from) return;
    get<RunDetails>(`/runs/${encodeURIComponent(from)}`).then(({ run }) => {
      const task = run.task ?? {};
      const read = (name: string): string => (typeof task[name] === "string" ? (task[name] as string) : "");
      set({
        prompt: read("prompt"),
        cwd: read("cwd"),
        agent: read("agent"),
        mode: read("mode") || "exec",
        model: read("model"),
        sandbox: read("sandbox"),
        session: task.session === true,
        modelFrom: read("model_from"),
      });
    }, () => undefined);
  }, [from]);

  const folders = useMemo(() => {
    const roots = info?.roots ?? [];
    const inside = (folder: string): boolean => roots.some((root) => folder === root || folder.startsWith(root.replace(/\/?$/, "/")));
    const used = list.runs.map((run) => run.cwd).filter((folder) => folder && inside(folder));
    return [...new Set([...recentFolders().filter(inside), ...used, ...roots])].slice(0, 20);
  }, [info, list.runs]);
  useEffect(() => {
    if (!wanted.cwd && folders[0]) set({ cwd: folders[0] });
  }, [folders]);

  const agent = agents.find((each) => (wanted.agent ? each.agent === wanted.agent : each.default));
  const modes = Object.keys(MODES).filter((mode) => agent?.capabilities?.[mode] !== "no");
  const usd = wanted.budget.trim() ? Number(wanted.budget.trim().replace(/^\$|\s*usd$/gi, "")) : null;
  const badBudget = usd !== null && !(usd > 0);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    if (badBudget) {
      setProblem(new Problem(422, { detail: "This is no sum of dollars.", next: "For example 2 or 0.50.", field: "budgets" }, ""));
      return;
    }
    setBusy(true);
    setProblem(null);
    const task = {
      prompt: wanted.prompt,
      cwd: wanted.cwd,
      ...(wanted.agent ? { agent: wanted.agent } : {}),
      ...(wanted.mode !== "exec" ? { mode: wanted.mode } : {}),
      ...(wanted.model ? { model: wanted.model } : {}),
      ...(wanted.sandbox ? { sandbox: wanted.sandbox } : {}),
      ...(usd ? { budgets: { run: { usd } } } : {}),
      ...(wanted.session ? { session: true } : {}),
      ...(wanted.ask ? { ask: ["*"] } : {}),
      ...(wanted.login ? { login: true } : {}),
      ...(wanted.modelFrom ? { model_from: wanted.modelFrom } : {}),
    };
    try {
      const started = await create<NewRun>("/runs", { task }, key);
      rememberFolder(wanted.cwd);
      refreshSoon(0);
      go(runAddress(started.run_id));
    } catch (error) {
      const found = error instanceof Problem ? error : new Problem(0, {}, String(error));
      setProblem(found);
      document.getElementById(`start-${fieldOf(found)}`)?.focus();
    } finally {
      setBusy(false);
    }
  };

  const at = problem ? fieldOf(problem) : "";
  const told = (field: string): Pick<FieldProps, "problem"> => ({ problem: at === field ? problem : null });
  if (info?.read_only) {
    return (
      <div class="center">
        <h1 tabIndex={-1}>This server is read-only</h1>
        <p>
          Runs are started in a terminal: <code>inspan "…"</code>
        </p>
      </div>
    );
  }
  return (
    <div class="page start">
      <h1 tabIndex={-1}>New run</h1>
      <form onSubmit={(event) => void submit(event)} noValidate>
        <Field name="prompt" label="What is to be done" {...told("prompt")}>
          {(attributes) => (
            <TextArea
              {...attributes}
              label="What is to be done"
              rows={4}
              value={wanted.prompt}
              focus
              placeholder="fix the failing test"
              onInput={(prompt) => set({ prompt })}
              onKeyDown={(event) => {
                if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) void submit(event);
              }}
            />
          )}
        </Field>
        <Field name="cwd" label="Folder" hint={info ? `Below ${info.roots.join(" or ")}` : ""} {...told("cwd")}>
          {({ id, describedBy, invalid }) => (
            <>
              <input id={id} class="mono" list="folders" value={wanted.cwd} aria-describedby={describedBy} aria-invalid={invalid} autocomplete="off" spellcheck={false} onInput={(event) => set({ cwd: event.currentTarget.value })} />
              <datalist id="folders">
                {folders.map((folder) => (
                  <option key={folder} value={folder} />
                ))}
              </datalist>
            </>
          )}
        </Field>
        <div class="columns">
          <Field name="agent" label="Agent" {...told("agent")}>
            {({ id, describedBy, invalid }) => (
              <select id={id} value={wanted.agent} aria-describedby={describedBy} aria-invalid={invalid} onChange={(event) => set({ agent: event.currentTarget.value })}>
                <option value="">default{agents.find((each) => each.default) ? `: ${agents.find((each) => each.default)?.title}` : ""}</option>
                {agents.map((each) => (
                  <option key={each.agent} value={each.agent} disabled={!isInstalled(each)}>
                    {each.title || each.agent} {isInstalled(each) ? describeVersion(each) : "(not installed)"}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field name="mode" label="Mode" {...told("mode")}>
            {({ id, describedBy, invalid }) => (
              <select id={id} value={wanted.mode} aria-describedby={describedBy} aria-invalid={invalid} onChange={(event) => set({ mode: event.currentTarget.value })}>
                {modes.map((mode) => (
                  <option key={mode} value={mode}>
                    {MODES[mode] ?? mode}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field name="model" label="Model" {...told("model")}>
            {({ id, describedBy, invalid }) => (
              <input id={id} value={wanted.model} placeholder="the agent's own" aria-describedby={describedBy} aria-invalid={invalid} autocomplete="off" spellcheck={false} onInput={(event) => set({ model: event.currentTarget.value })} />
            )}
          </Field>
          <Field name="sandbox" label="Sandbox" {...told("sandbox")}>
            {({ id, describedBy, invalid }) => (
              <select id={id} value={wanted.sandbox} aria-describedby={describedBy} aria-invalid={invalid} onChange={(event) => set({ sandbox: event.currentTarget.value })}>
                {SANDBOXES.map(([value, words]) => (
                  <option key={value} value={value}>
                    {words}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field name="budgets" label="Budget, in dollars" {...told("budgets")}>
            {({ id, describedBy, invalid }) => (
              <input id={id} class="num" inputMode="decimal" value={wanted.budget} placeholder="as configured" aria-describedby={describedBy} aria-invalid={invalid} autocomplete="off" onInput={(event) => set({ budget: event.currentTarget.value })} />
            )}
          </Field>
        </div>
        <div class="switches">
          <Switch label="Keep it open" about="a session, for further messages" on={wanted.session} set={(session) => set({ session })} />
          <Switch label="Ask me" about="before it does what it would ask about itself" on={wanted.ask} set={(ask) => set({ ask })} />
          <Switch label="My login" about="the subscription, in place of a key" on={wanted.login} set={(login) => set({ login })} />
        </div>
        <details open={Boolean(wanted.modelFrom) || at === "model_from"}>
          <summary>More</summary>
          <Field name="model_from" label="Who answers the model calls" hint="live, record:FILE, replay:FILE or script:FILE" {...told("model_from")}>
            {({ id, describedBy, invalid }) => (
              <input id={id} class="mono" value={wanted.modelFrom} placeholder="the provider" aria-describedby={describedBy} aria-invalid={invalid} autocomplete="off" spellcheck={false} onInput={(event) => set({ modelFrom: event.currentTarget.value })} />
            )}
          </Field>
        </details>
        {problem && !FIELDS.includes(at) ? <Trouble error={problem} /> : null}
        <div class="buttons">
          <button type="submit" class="button button-main" disabled={busy || !wanted.prompt.trim()}>
            {busy ? "Starting…" : "Start"}
          </button>
          <a class="button" href="/">
            Back
          </a>
        </div>
      </form>
    </div>
  );
}

function isInstalled({ version }: AgentInfo): boolean {
  return Boolean(version) && version !== "-";
}

/** Of what comes with inspan, as an API does, the version is inspan's own and tells nothing. */
function describeVersion({ version }: AgentInfo): string {
  return version === serverInfo.value?.version ? "" : (version ?? "");
}

/** The last part of what the server calls the field: "task.cwd" is "cwd". */
function fieldOf(problem: Problem): string {
  const words = problem.field.replace(/^-+/, "").replaceAll("-", "_").split(/[.[]/);
  const found = words.find((word) => FIELDS.includes(word)) ?? words.at(-1) ?? "";
  return found === "budget" ? "budgets" : found;
}

interface FieldProps {
  name: string;
  label: string;
  hint?: string;
  problem: Problem | null;
  children: (attributes: { id: string; describedBy: string; invalid: boolean }) => preact.ComponentChildren;
}

function Field({ name, label, hint = "", problem, children }: FieldProps) {
  const id = `start-${name}`;
  return (
    <div class={`field field-${name}`}>
      <label for={id}>{label}</label>
      {children({ id, describedBy: `${id}-about`, invalid: problem !== null })}
      <p id={`${id}-about`} class={problem ? "field-problem" : "hint"} role={problem ? "alert" : undefined}>
        {problem ? visible(`${problem.message} ${problem.next}`) : hint}
      </p>
    </div>
  );
}

function Switch({ label, about, on, set }: { label: string; about: string; on: boolean; set: (on: boolean) => void }) {
  return (
    <label class="switch">
      <input type="checkbox" checked={on} onChange={(event) => set(event.currentTarget.checked)} />
      <span>
        <b>{label}</b> <span class="dim">{about}</span>
      </span>
    </label>
  );
}
