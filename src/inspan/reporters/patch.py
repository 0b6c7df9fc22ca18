"""What a tool call changes in a file, read from its input: lines that go and lines that come. Pure, and no diff tool:
an edit names its old and its new text, and what they have in common at both ends is left out."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from .width import ELLIPSIS

_PATH_KEYS = ("file_path", "path", "filePath", "notebook_path", "absolute_path")
_PAIRS = (
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
    ("oldText", "newText"),
    ("old", "new"),
)
_CONTENT_KEYS = ("content", "file_text")
_PATCH_KEYS = ("patch", "diff", "input", "patchText")
_NEW_FILES = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "+++ b/")


class Patch(NamedTuple):
    """The files, and their lines with `+`, `-` or a blank in front; `writes` is for a file that is written whole."""

    path: str
    lines: tuple[str, ...]
    writes: bool = False

    @property
    def added(self) -> int:
        return sum(line.startswith("+") for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.startswith("-") for line in self.lines)


def find_patch(given: Any) -> Patch | None:
    """What a tool's input says about a change; nothing where it says nothing of the kind."""
    if isinstance(given, str):
        return _read_patch_text(given)
    if not isinstance(given, dict):
        return None
    fields = cast(dict[str, Any], given)
    path = _get_text(fields, _PATH_KEYS)
    edits = [line for each in _list_edits(fields) for line in _compare(each)]
    if path and edits:
        return Patch(path, tuple(edits))
    content = _get_text(fields, _CONTENT_KEYS)
    if path and content:
        return Patch(path, tuple(f"+{line}" for line in content.removesuffix("\n").split("\n")), writes=True)
    return _read_patch_text(_get_text(fields, _PATCH_KEYS))


def _get_text(fields: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((fields[key] for key in keys if isinstance(fields.get(key), str)), "")


def _list_edits(fields: dict[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield fields
    several = fields.get("edits")
    if isinstance(several, list):
        yield from (cast(dict[str, Any], each) for each in cast(list[Any], several) if isinstance(each, dict))


def _compare(edit: Mapping[str, Any]) -> Iterator[str]:
    for old, new in _PAIRS:
        if isinstance(edit.get(old), str) and isinstance(edit.get(new), str):
            yield from compare_lines(edit[old], edit[new])
            return


def compare_lines(old: str, new: str) -> Iterator[str]:
    """The lines that differ between two texts that begin and end alike."""
    before, after = old.removesuffix("\n").split("\n"), new.removesuffix("\n").split("\n")
    while before and after and before[0] == after[0]:
        del before[0], after[0]
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    yield from (f"-{line}" for line in before if old)
    yield from (f"+{line}" for line in after if new)


def _read_patch_text(text: str) -> Patch | None:
    if not text.startswith(("*** Begin Patch", "--- ", "diff ")):
        return None
    lines = text.split("\n")
    paths = [line.removeprefix(mark) for line in lines for mark in _NEW_FILES if line.startswith(mark)]
    changed = (line for line in lines if line.startswith(("+", "-")) and not line.startswith(("+++ ", "--- ")))
    return Patch(", ".join(paths), tuple(changed)) if paths else None


def fold_lines(lines: tuple[str, ...], limit: int | None) -> Iterator[str]:
    """The first so many lines, and how many there are besides."""
    yield from lines[:limit]
    if limit is not None and len(lines) > limit:
        yield f"{ELLIPSIS} {len(lines) - limit} more lines: inspan diff"
