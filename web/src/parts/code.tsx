// Code and output: coloured a little, folded to the useful end where it is long.
import { memo } from "../cell.ts";
import { highlight } from "../text/highlight.ts";
import type { PatchLine } from "../text/patch.ts";
import { visible, visibleOutput } from "../text/visible.ts";
import { CopyButton } from "./small.tsx";

export function Tokens({ text, language }: { text: string; language: string }) {
  return (
    <>
      {highlight(visible(text), language).map((token, index) =>
        token.kind ? (
          <span key={index} class={`token-${token.kind}`}>
            {token.text}
          </span>
        ) : (
          token.text
        ),
      )}
    </>
  );
}

export const Code = memo(({ text, language, label }: { text: string; language: string; label: string }) => (
  <div class="code">
    <div class="code-bar">
      <span>{visible(label)}</span>
      <CopyButton text={text} what="code" />
    </div>
    <pre tabIndex={0} role="region" aria-label={`Code${label ? `, ${label}` : ""}`}>
      {text.split("\n").map((line, index) => (
        <span key={index} class="code-line">
          <Tokens text={line} language={language} />
          {"\n"}
        </span>
      ))}
    </pre>
  </div>
));

const TAIL_LINES = 6;
const MOST_LINES = 2000;

/** What a tool put out: its last lines, or all of it. */
export const Output = memo((props: { text: string; open: boolean; failed: boolean; onToggle: () => void }) => {
  const lines = visibleOutput(props.text).split("\n");
  if (lines.length === 1 && !lines[0]) return null;
  const folds = lines.length > TAIL_LINES + 1;
  const shown = !folds ? lines : props.open ? lines.slice(-MOST_LINES) : lines.slice(-TAIL_LINES);
  const hidden = lines.length - shown.length;
  return (
    <div class={`output ${props.failed ? "output-failed" : ""}`}>
      {folds ? (
        <button type="button" class="fold" aria-expanded={props.open} onClick={props.onToggle}>
          {props.open ? (hidden ? `the last ${MOST_LINES} of ${lines.length} lines · fold` : "fold") : `${hidden} more lines`}
        </button>
      ) : null}
      <pre>{shown.join("\n")}</pre>
    </div>
  );
});

const MARKS = { same: " ", added: "+", removed: "-", note: "\\" } as const;
const SAID = { same: "", added: "added: ", removed: "removed: ", note: "" } as const;

/** Lines of a patch; without numbers where nobody knows them. */
export const PatchLines = memo(
  ({ lines, language, numbers }: { lines: readonly PatchLine[]; language: string; numbers: boolean }) => (
    <div class={`patch ${numbers ? "" : "patch-plain"}`}>
      {lines.map((line, index) => (
        <div key={index} class={`patch-line patch-${line.kind}`}>
          {numbers ? (
            <>
              <span class="line-number" aria-hidden="true">
                {line.before ?? ""}
              </span>
              <span class="line-number" aria-hidden="true">
                {line.after ?? ""}
              </span>
            </>
          ) : null}
          <span class="mark" aria-hidden="true">
            {MARKS[line.kind]}
          </span>
          <span class="patch-text">
            {SAID[line.kind] ? <span class="unseen">{SAID[line.kind]}</span> : null}
            {line.to > line.from ? (
              <>
                <Tokens text={line.text.slice(0, line.from)} language={language} />
                <span class="word-changed">{visible(line.text.slice(line.from, line.to))}</span>
                <Tokens text={line.text.slice(line.to)} language={language} />
              </>
            ) : (
              <Tokens text={line.text} language={language} />
            )}
            {"\n"}
          </span>
        </div>
      ))}
    </div>
  ),
);
