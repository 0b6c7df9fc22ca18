"""Patches in the line-based format of the `apply_patch` tool."""

from itertools import takewhile

_CONTEXT_LINES = 3


def build_add_patch(path: str, content: str) -> str:
    """A patch that makes the file, or replaces it; the format ends every file with a newline."""
    return _build_patch("Add", path, [f"+{line}" for line in _split_lines(content)])


def build_update_patch(path: str, *, old: str, new: str, text: str) -> str:
    """A patch that replaces `old` in `text`, which the file holds now; whole lines, with some around them.

    When `old` is not in `text` the patch says just that, and the tool will refuse it.
    """
    if old not in text or old == new:
        return _build_patch(
            "Update", path, ["@@", *_prefix_lines("-", _split_lines(old)), *_prefix_lines("+", _split_lines(new))]
        )
    before, after = _split_lines(text), _split_lines(text.replace(old, new, 1))
    same_above = _count_common(before, after)
    same_below = _count_common(before[same_above:][::-1], after[same_above:][::-1])
    hunk = [
        *_prefix_lines(" ", before[max(0, same_above - _CONTEXT_LINES) : same_above]),
        *_prefix_lines("-", before[same_above : len(before) - same_below]),
        *_prefix_lines("+", after[same_above : len(after) - same_below]),
        *_prefix_lines(" ", before[len(before) - same_below :][:_CONTEXT_LINES]),
    ]
    return _build_patch("Update", path, ["@@", *hunk])


def _split_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _count_common(one: list[str], other: list[str]) -> int:
    """How many lines the two begin with alike."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _prefix_lines(mark: str, lines: list[str]) -> list[str]:
    return [mark + line for line in lines]


def _build_patch(verb: str, path: str, lines: list[str]) -> str:
    return "\n".join(["*** Begin Patch", f"*** {verb} File: {path}", *lines, "*** End Patch"])
