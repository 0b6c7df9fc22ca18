"""What an operation found, as plain text for an agent or a person: one line for each thing, names on one line."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def format_read(found: "dict[str, Any]") -> str:
    """The text itself, to the letter."""
    return found["text"]


def format_change(found: "dict[str, Any]") -> str:
    if "replacements" in found:
        count = found["replacements"]
        return f"edited {show(found['path'])} ({count} {'place' if count == 1 else 'places'})\n"
    return f"{'created' if found['created'] else 'wrote'} {show(found['path'])} ({found['bytes']} bytes)\n"


def format_list(found: "dict[str, Any]") -> str:
    return "".join(f"{_format_entry(entry)}\n" for entry in found["entries"])


def format_search(found: "dict[str, Any]") -> str:
    lines = (f"{show(match['path'])}:{match['line']}: {show(match['text'])}\n" for match in found["matches"])
    return "".join(lines) or "no match\n"


def format_stat(found: "dict[str, Any]") -> str:
    return "".join(f"{name}: {show(str(value))}\n" for name, value in found.items())


def show(text: str) -> str:
    """A name or a line with what cannot be printed as JSON escapes it, so that it stays one line and can be given back
    by `--input`."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\t" else _escape(letter) for letter in text)


def _escape(letter: str) -> str:
    return "".join(f"\\u{unit:04x}" for unit in _list_units(letter))


def _list_units(letter: str) -> "list[int]":
    data = letter.encode("utf-16-be", errors="surrogatepass")
    return [int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2)]


def _format_entry(entry: "dict[str, Any]") -> str:
    name, kind = show(entry["path"]), entry["kind"]
    if kind == "link":
        return f"{name} -> {show(entry['target'])}"
    return f"{name}/" if kind == "folder" else name if kind == "file" else f"{name} (not an ordinary file)"
