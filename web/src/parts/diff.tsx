// A real diff: every file with its parts, what did not change folded, long files closed at first.
import { useMemo, useState } from "preact/hooks";
import type { RunDiff } from "../api/values.ts";
import { memo } from "../cell.ts";
import { plural } from "../text/format.ts";
import { languageOf } from "../text/highlight.ts";
import { type FilePatch, parsePatch } from "../text/patch.ts";
import { visible } from "../text/visible.ts";
import { PatchLines } from "./code.tsx";
import { Counts } from "./items.tsx";
import { SignIcon } from "./icons.tsx";

const LONG_LINES = 400;
const CHANGES = { added: "new", modified: "", deleted: "deleted", renamed: "renamed" } as const;

export const Diff = memo(({ diff, list = true }: { diff: RunDiff; list?: boolean }) => {
  const files = useMemo(() => parsePatch(diff.patch ?? ""), [diff]);
  const added = files.reduce((sum, file) => sum + file.added, 0);
  const removed = files.reduce((sum, file) => sum + file.removed, 0);
  return (
    <div class="diff">
      {diff.notes?.map((note, index) => (
        <p key={index} class="diff-note">
          {visible(note)}
        </p>
      ))}
      {files.length ? (
        <>
          <p class="diff-sum">
            {plural(files.length, "file")} changed <Counts added={added} removed={removed} /> <span class="dim">in {visible(diff.top)}</span>
          </p>
          {list && files.length > 1 ? (
            <ul class="diff-list">
              {files.map((file, index) => (
                <li key={index}>
                  <a
                    href={`#file-${index}`}
                    onClick={(event) => {
                      event.preventDefault();
                      document.getElementById(`file-${index}`)?.scrollIntoView();
                    }}
                  >
                    <code>{visible(file.path)}</code>
                  </a>
                  <Counts added={file.added} removed={file.removed} />
                </li>
              ))}
            </ul>
          ) : null}
          {files.map((file, index) => (
            <FilePart key={`${file.path} ${index}`} file={file} id={`file-${index}`} />
          ))}
        </>
      ) : diff.files.length ? (
        <ul class="diff-list">
          {diff.files.map((file) => (
            <li key={file.path}>
              <span class="tag">{file.change}</span> <code>{visible(file.path)}</code>
            </li>
          ))}
        </ul>
      ) : (
        <p class="dim diff-none">No file was changed{diff.top ? ` in ${visible(diff.top)}` : ""}.</p>
      )}
    </div>
  );
});

function FilePart({ file, id }: { file: FilePatch; id: string }) {
  const [open, setOpen] = useState(file.added + file.removed <= LONG_LINES);
  const language = languageOf(file.path);
  const word = CHANGES[file.change];
  return (
    <div class="diff-file" id={id}>
      <h3>
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
          <SignIcon sign={open ? "down" : "chevron"} size={12} />
          <code>
            {file.change === "renamed" ? `${visible(file.before)} → ` : ""}
            {visible(file.path)}
          </code>
          {word ? <span class="tag">{word}</span> : null}
          {file.modes ? <span class="tag">{file.modes}</span> : null}
          <Counts added={file.added} removed={file.removed} />
        </button>
      </h3>
      {open ? (
        <div class="diff-body" tabIndex={0} role="group" aria-label={`Changes of ${file.path}`}>
          {file.binary ? <p class="dim diff-none">A binary file: its contents are not shown.</p> : null}
          {file.hunks.map((hunk, index) => (
            <div key={index}>
              {hunk.skipped || hunk.heading ? (
                <div class="hunk">
                  {hunk.skipped ? `${plural(hunk.skipped, "unchanged line")}` : ""} <span>{visible(hunk.heading)}</span>
                </div>
              ) : null}
              <PatchLines lines={hunk.lines} language={language} numbers />
            </div>
          ))}
        </div>
      ) : null}
    </div>
  );
}
