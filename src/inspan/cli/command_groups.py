"""The commands of `inspan --help` by what people want to do; one that stands nowhere here is listed last."""

from collections.abc import Iterator, Sequence

_GROUPS = {
    "Run": ("run", "resume", "chat", "loop", "blueprint", "compare", "demo"),
    "Watch": ("ps", "show", "logs", "events", "wait", "transcript", "serve"),
    "Answer and stop": ("approvals", "approve", "deny", "send", "interrupt", "close", "stop", "kill"),
    "See and undo changes": ("diff", "undo", "apply", "worktrees"),
    "Money": ("cost", "budget"),
    "Set up": ("init", "agents", "login", "doctor", "config", "completion", "upgrade-notes"),
    "Clean up and mend": ("rm", "prune", "recover", "reindex"),
}
_OTHERS = "More"


def group_commands(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Titles with the names of those commands that there are, each of them once."""
    for title, group in _GROUPS.items():
        if found := [name for name in group if name in names]:
            yield title, found
    known = {name for group in _GROUPS.values() for name in group}
    if others := [name for name in names if name not in known]:
        yield _OTHERS, others
