"""Pages that need nothing else: no script, no font, no picture from elsewhere. What others wrote is shown as text."""

from collections.abc import Iterable, Sequence
from html import escape

MOST_PATCH = 200_000
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #cf222e; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .35rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
.passed { color: var(--good); } .failed { color: var(--bad); } .skipped { opacity: .6; }
.note { background: var(--soft); padding: .5rem .8rem; }
pre { overflow-x: auto; background: var(--soft); padding: .8rem; font-size: 13px; white-space: pre-wrap; }
.added { color: var(--good); } .removed { color: var(--bad); }
.bar { background: var(--soft); height: 1.1rem; position: relative; min-width: 16rem; }
.bar i { position: absolute; top: 0; bottom: 0; background: currentColor; min-width: 2px; }
svg { max-width: 100%; height: auto; }
"""


def build_html_page(title: str, body: Iterable[str]) -> str:
    """The page; what is in `body` is HTML already."""
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>{escape(title)}</title>"
    return f"<!doctype html>\n<html lang=en>{head}<style>{_STYLE}</style>\n" + "\n".join(body) + "\n</html>\n"


def build_html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def build_html_patch(title: str, patch: str) -> str:
    """A patch to unfold, with its lines coloured; of a very long one the beginning."""
    lines = "\n".join(map(_format_patch_line, patch[:MOST_PATCH].splitlines()))
    more = "\n… cut here; `inspan diff` shows all of it" if len(patch) > MOST_PATCH else ""
    return f"<details><summary>{escape(title)}</summary><pre>{lines}{more}</pre></details>"


def _format_patch_line(line: str) -> str:
    kind = {"+": "added", "-": "removed"}.get(line[:1])
    return f"<span class={kind}>{escape(line)}</span>" if kind else escape(line)
