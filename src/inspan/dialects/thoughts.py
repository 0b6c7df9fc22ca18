"""Thinking that a model writes into its answer: `<think>…</think>` in front of the text."""

_BEGIN, _END = "<think>", "</think>"


class Thoughts:
    """Fed with a text piece by piece, parts what was thought from what is said."""

    def __init__(self) -> None:
        self._held = ""
        self._place = "start"

    def feed(self, piece: str) -> tuple[str, str]:
        """What this piece adds to the thoughts and to the text; a half mark is held back until it is whole."""
        self._held += piece
        if self._place == "start" and not self._decide():
            return "", ""
        if self._place in ("gap", "text"):
            return "", self._text()
        thought, mark, rest = self._held.partition(_END)
        if not mark:
            kept = next((size for size in range(len(_END) - 1, 0, -1) if thought.endswith(_END[:size])), 0)
            at = len(thought) - kept
            self._held = thought[at:]
            return thought[:at], ""
        self._place, self._held = "gap", rest
        return thought, self._text()

    def finish(self) -> tuple[str, str]:
        """What was held back."""
        held, self._held = self._held, ""
        return (held, "") if self._place == "thought" else ("", held)

    def _text(self) -> str:
        """What is said; the lines that part it from the thoughts are not."""
        said, self._held = self._held.lstrip("\n") if self._place == "gap" else self._held, ""
        self._place = "text" if said else self._place
        return said

    def _decide(self) -> bool:
        bare = self._held.lstrip()
        if bare.startswith(_BEGIN):
            self._place, self._held = "thought", bare.removeprefix(_BEGIN)
        elif not _BEGIN.startswith(bare):
            self._place = "text"
        return self._place != "start"
