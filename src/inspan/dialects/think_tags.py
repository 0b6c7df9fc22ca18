"""Thinking that a model writes into its answer: `<think>…</think>` in front of the text."""

_BEGIN, _END = "<think>", "</think>"


class ThinkTagSplitter:
    """Fed with a text piece by piece, parts what was thought from what is said."""

    def __init__(self) -> None:
        self._pending = ""
        self._state = "start"

    def feed(self, piece: str) -> tuple[str, str]:
        """What this piece adds to the thoughts and to the text; a half mark is held back until it is whole."""
        self._pending += piece
        if self._state == "start" and not self._detect_tag():
            return "", ""
        if self._state in ("gap", "text"):
            return "", self._take_text()
        thought, mark, rest = self._pending.partition(_END)
        if not mark:
            kept = next((size for size in range(len(_END) - 1, 0, -1) if thought.endswith(_END[:size])), 0)
            at = len(thought) - kept
            self._pending = thought[at:]
            return thought[:at], ""
        self._state, self._pending = "gap", rest
        return thought, self._take_text()

    def finish(self) -> tuple[str, str]:
        """What was held back."""
        held, self._pending = self._pending, ""
        return (held, "") if self._state == "thought" else ("", held)

    def _take_text(self) -> str:
        """What is said; the lines that part it from the thoughts are not."""
        said, self._pending = self._pending.lstrip("\n") if self._state == "gap" else self._pending, ""
        self._state = "text" if said else self._state
        return said

    def _detect_tag(self) -> bool:
        bare = self._pending.lstrip()
        if bare.startswith(_BEGIN):
            self._state, self._pending = "thought", bare.removeprefix(_BEGIN)
        elif not _BEGIN.startswith(bare):
            self._state = "text"
        return self._state != "start"
