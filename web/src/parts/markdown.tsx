// Markdown as elements. Text is only ever set as text.
import type { ComponentChildren } from "preact";
import { memo } from "../cell.ts";
import { languageOf } from "../text/highlight.ts";
import { type Block, type Inline, parseMarkdown } from "../text/markdown.ts";
import { visible } from "../text/visible.ts";
import { Code } from "./code.tsx";

export const Markdown = memo(({ text }: { text: string }) => (
  <div class="prose">
    {parseMarkdown(text).map((block, index) => (
      <BlockPart key={index} block={block} />
    ))}
  </div>
));

function BlockPart({ block }: { block: Block }): ComponentChildren {
  switch (block.type) {
    case "paragraph":
      return (
        <p>
          <Inlines parts={block.children} />
        </p>
      );
    case "heading":
      // The headings of the page are its own: those of an agent are bold lines to everybody.
      return (
        <p class={`said-heading said-heading-${Math.min(block.level, 3)}`}>
          <Inlines parts={block.children} />
        </p>
      );
    case "code":
      return <Code text={block.text} language={languageOf(block.language)} label={block.language} />;
    case "quote":
      return (
        <blockquote>
          {block.children.map((each, index) => (
            <BlockPart key={index} block={each} />
          ))}
        </blockquote>
      );
    case "rule":
      return <hr />;
    case "table":
      return (
        <div class="table-scroll" tabIndex={0} role="region" aria-label="Table">
          <table>
            <thead>
              <tr>
                {block.head.map((cell, index) => (
                  <th key={index} scope="col">
                    <Inlines parts={cell} />
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {block.rows.map((row, index) => (
                <tr key={index}>
                  {row.map((cell, place) => (
                    <td key={place}>
                      <Inlines parts={cell} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    case "list": {
      const items = block.items.map((item, index) => (
        <li key={index} class={item.done === null ? "" : "task"}>
          {item.done === null ? null : <span class="box" role="img" aria-label={item.done ? "done" : "open"}>{item.done ? "☑" : "☐"}</span>}
          {item.children.map((each, place) =>
            each.type === "paragraph" ? <Inlines key={place} parts={each.children} /> : <BlockPart key={place} block={each} />,
          )}
        </li>
      ));
      return block.ordered ? <ol start={block.start}>{items}</ol> : <ul>{items}</ul>;
    }
  }
}

function Inlines({ parts }: { parts: readonly Inline[] }) {
  return (
    <>
      {parts.map((part, index) => {
        switch (part.type) {
          case "text":
            return visible(part.text);
          case "code":
            return <code key={index}>{visible(part.text)}</code>;
          case "link":
            return (
              <a key={index} href={part.href} target="_blank" rel="noopener noreferrer nofollow" title={part.href}>
                <Inlines parts={part.children} />
              </a>
            );
          case "strong":
            return (
              <strong key={index}>
                <Inlines parts={part.children} />
              </strong>
            );
          case "emphasis":
            return (
              <em key={index}>
                <Inlines parts={part.children} />
              </em>
            );
          case "deleted":
            return (
              <del key={index}>
                <Inlines parts={part.children} />
              </del>
            );
        }
      })}
    </>
  );
}
