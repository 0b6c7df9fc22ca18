// What an agent asks, whole, with everything that can be answered: a yes is to what is seen.
import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "../api/client.ts";
import type { Answer, AskedPermission, AskedQuestion, OpenQuestion } from "../api/values.ts";
import { subjectOf } from "../folds/subject.ts";
import { useKeys, type Keys } from "../keys.ts";
import { refreshSoon, questions } from "../runs_store.ts";
import { type Seen, useSeen } from "../seen.ts";
import { plural } from "../text/format.ts";
import { visible } from "../text/visible.ts";
import { GlyphIcon } from "./icons.tsx";
import { Elapsed, TextArea, Trouble, useBusy, useProblem } from "./small.tsx";

// The height of a line of what is asked for, as the style says.
const LINE_PX = 20;

/** Which question it is: an id may come again once its question is closed, and another run may have the same. */
export function keyOfQuestion({ run_id: run, asked_at: at, question }: OpenQuestion): string {
  return `${run} ${question.id} ${at}`;
}

export async function answer(asked: OpenQuestion, given: Answer): Promise<void> {
  await post(`/approvals/${encodeURIComponent(asked.question.id)}`, { ...given, run: asked.run_id, asked_at: asked.asked_at });
  questions.value = questions.value.filter((each) => keyOfQuestion(each) !== keyOfQuestion(asked));
  refreshSoon();
}

export function QuestionBox({ asked, agent, readOnly, keys = false }: { asked: OpenQuestion; agent: string; readOnly: boolean; keys?: boolean }) {
  const { question } = asked;
  const box = useRef<HTMLDivElement>(null);
  const seen = useSeen(box);
  const props = { asked, agent, readOnly, keys, seen };
  return (
    <div class={`question ${keys ? "" : "question-keyless"}`} role="group" aria-label={`${agent || "The agent"} asks`} ref={box}>
      {question.kind === "permission_asked" ? <PermissionForm {...props} question={question} /> : <AnswerForm {...props} question={question} />}
    </div>
  );
}

interface FormProps<T> {
  asked: OpenQuestion;
  question: T;
  agent: string;
  readOnly: boolean;
  keys: boolean;
  seen: Seen;
}

function useAnswer(asked: OpenQuestion): { busy: boolean; problem: unknown; give: (given: Answer) => void } {
  const [busy, begin] = useBusy();
  const [problem, setProblem] = useProblem();
  const give = (given: Answer): void =>
    begin(() => {
      setProblem(null);
      return answer(asked, given).catch(setProblem);
    });
  return { busy, problem, give };
}

function PermissionForm({ asked, question, agent, readOnly, keys, seen }: FormProps<AskedPermission>) {
  const { busy, problem, give } = useAnswer(asked);
  const giveSeen = (given: Answer): void => void (seen.check() && give(given));
  const [mode, setMode] = useState<"ask" | "edit" | "deny">("ask");
  const [edited, setEdited] = useState("");
  const [reason, setReason] = useState("");
  const [wrong, setWrong] = useState("");
  const subject = subjectOf(question.input);
  const command = commandOf(question.input);
  const rest = JSON.stringify(question.input ?? {}, null, 2);
  const hasMore = Boolean(subject) && subject !== rest && !isOnlySubject(question.input, subject);
  const beginEdit = (): void => {
    setEdited(command ?? rest);
    setMode("edit");
  };
  const sendEdited = (): void => {
    try {
      const input = command === null ? (JSON.parse(edited) as unknown) : { ...(question.input as object), command: edited };
      give({ allowed: true, input });
    } catch (error) {
      setWrong(`This is no JSON: ${String(error)}`);
    }
  };
  const own: Keys = mode === "ask" ? { a: () => giveSeen({ allowed: true }), d: () => setMode("deny") } : { Escape: () => setMode("ask") };
  useKeys(keys && !readOnly ? own : {});
  return (
    <>
      <h2 class="question-title" data-seen>
        <GlyphIcon glyph="person" />
        <span>
          {visible(agent || "The agent")} wants to use <b>{visible(question.tool)}</b>
        </span>
        <small>
          <Elapsed since={asked.asked_at} /> ago
        </small>
      </h2>
      {mode === "edit" ? (
        <TextArea label="What it may do instead" value={edited} onInput={setEdited} mono focus />
      ) : (
        <Subject text={visible(subject || rest)} />
      )}
      {question.reason || hasMore ? (
        <div class="question-about" tabIndex={0} role="group" aria-label="What it says of it">
          {question.reason ? <p class="dim">{visible(question.reason)}</p> : null}
          {hasMore ? (
            <details>
              <summary>all of its input</summary>
              <pre>{visible(rest)}</pre>
            </details>
          ) : null}
        </div>
      ) : null}
      {wrong ? <p class="field-problem">{wrong}</p> : null}
      {problem ? <Trouble error={problem} /> : null}
      {mode === "deny" ? (
        <TextArea label="Why not; the agent is told" placeholder="Why not? The agent is told (may be empty)." value={reason} onInput={setReason} focus />
      ) : null}
      {readOnly ? (
        <p class="dim">This server is read-only: answer with `inspan approve {asked.run_id}/{question.id}`.</p>
      ) : (
        <div class="buttons">
          {mode === "ask" ? (
            <>
              <button type="button" class="button button-approve" data-seen disabled={busy} aria-disabled={!seen.isSeen} onClick={() => giveSeen({ allowed: true })}>
                Approve <kbd>a</kbd>
              </button>
              <button type="button" class="button button-deny" disabled={busy} onClick={() => setMode("deny")}>
                Deny <kbd>d</kbd>
              </button>
              <button type="button" class="button" disabled={busy} onClick={beginEdit}>
                Edit
              </button>
              <button
                type="button"
                class="button"
                disabled={busy}
                aria-disabled={!seen.isSeen}
                title="For good in this project: this tool with exactly this command, file or input"
                onClick={() => giveSeen({ allowed: true, always: true })}
              >
                Always here
              </button>
            </>
          ) : (
            <>
              <button
                type="button"
                class={`button ${mode === "deny" ? "button-deny-now" : "button-approve"}`}
                disabled={busy}
                onClick={() => (mode === "deny" ? give({ allowed: false, reason }) : sendEdited())}
              >
                {mode === "deny" ? "Deny" : "Approve as edited"}
              </button>
              <button type="button" class="button" disabled={busy} onClick={() => setMode("ask")}>
                Back
              </button>
            </>
          )}
        </div>
      )}
    </>
  );
}

/** What is asked for, whole; where it does not fit, how much more of it there is. */
function Subject({ text }: { text: string }) {
  const box = useRef<HTMLPreElement>(null);
  const [more, setMore] = useState(0);
  useEffect(() => {
    const { current } = box;
    if (!current) return;
    const look = (): void => {
      const hidden = current.scrollHeight - current.clientHeight - current.scrollTop;
      setMore(Math.max(0, Math.round(hidden / LINE_PX)));
    };
    const sizes = new ResizeObserver(look);
    sizes.observe(current);
    current.addEventListener("scroll", look, { passive: true });
    return () => {
      sizes.disconnect();
      current.removeEventListener("scroll", look);
    };
  }, [text]);
  return (
    <div class={`subject-box ${more ? "subject-cut" : ""}`} data-seen>
      <pre class="question-subject" tabIndex={0} role="group" aria-label="What it wants to do" ref={box}>
        {text}
      </pre>
      {more ? (
        <button type="button" class="subject-more" onClick={() => box.current?.scrollBy({ top: box.current.clientHeight - LINE_PX })}>
          {plural(more, "more line")}
        </button>
      ) : null}
    </div>
  );
}

function AnswerForm({ asked, question, agent, readOnly, keys, seen }: FormProps<AskedQuestion>) {
  const { busy, problem, give } = useAnswer(asked);
  const [answers, setAnswers] = useState<Record<string, string[]>>({});
  const put = (text: string, value: string[]): void => setAnswers({ ...answers, [text]: value });
  const isWhole = question.questions.every((each) => answers[each.text]?.some((value) => value.trim()));
  const send = (): void => {
    const given = Object.fromEntries(question.questions.map(({ text }) => [text, (answers[text] ?? []).join(", ")]));
    give({ allowed: true, answers: given });
  };
  const refuse = (): void => void (seen.check() && give({ allowed: false }));
  useKeys(keys && !readOnly ? { d: refuse } : {});
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <h2 class="question-title" data-seen>
        <GlyphIcon glyph="person" />
        <span>{visible(agent || "The agent")} asks</span>
        <small>
          <Elapsed since={asked.asked_at} /> ago
        </small>
      </h2>
      {question.questions.map((each) => {
        const name = `${question.id} ${each.text}`;
        return (
          <fieldset key={each.text} disabled={busy || readOnly}>
            <legend>{visible(each.text)}</legend>
            {each.options?.length ? (
              each.options.map((option) => (
                <label key={option} class="option">
                  <input
                    type={each.several ? "checkbox" : "radio"}
                    name={name}
                    checked={answers[each.text]?.includes(option) ?? false}
                    onChange={(event) => {
                      const now = answers[each.text] ?? [];
                      const checked = event.currentTarget.checked;
                      put(each.text, each.several ? (checked ? [...now, option] : now.filter((value) => value !== option)) : [option]);
                    }}
                  />
                  <span>{visible(option)}</span>
                </label>
              ))
            ) : each.secret ? (
              <input
                type="password"
                autocomplete="off"
                aria-label={each.text}
                value={answers[each.text]?.[0] ?? ""}
                onInput={(event) => put(each.text, [event.currentTarget.value])}
              />
            ) : (
              <TextArea label={each.text} value={answers[each.text]?.[0] ?? ""} onInput={(value) => put(each.text, [value])} rows={2} />
            )}
          </fieldset>
        );
      })}
      {problem ? <Trouble error={problem} /> : null}
      {readOnly ? (
        <p class="dim">This server is read-only: answer with `inspan approve {asked.run_id}/{question.id} --answer …`.</p>
      ) : (
        <div class="buttons">
          <button type="submit" class="button button-approve" disabled={busy || !isWhole}>
            Answer
          </button>
          <button type="button" class="button button-deny" data-seen disabled={busy} aria-disabled={!seen.isSeen} onClick={refuse}>
            Refuse to answer <kbd>d</kbd>
          </button>
        </div>
      )}
    </form>
  );
}

function commandOf(input: unknown): string | null {
  const fields = typeof input === "object" && input !== null ? (input as Record<string, unknown>) : {};
  return typeof fields["command"] === "string" ? fields["command"] : null;
}

function isOnlySubject(input: unknown, subject: string): boolean {
  const fields = typeof input === "object" && input !== null ? (input as Record<string, unknown>) : {};
  const values = Object.entries(fields).filter(([name]) => name !== "description");
  return values.length === 1 && values[0]?.[1] === subject;
}
