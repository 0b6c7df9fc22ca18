"""Arguments that name runs and agents: what they accept, and what a shell offers while one is being typed."""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Offer = Literal["living", "ended", "any"]

_LAST = "@last"
_LIMIT = 50
_HELP_CHARACTERS = 60
Named = tuple[str, str]


class RunName(click.ParamType[str]):
    """A run by its id, the beginning of one, or `@last`. `offer` says which runs a shell proposes."""

    name = "run"

    def __init__(self, offer: Offer = "any") -> None:
        self._offer: Offer = offer

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem[str]]":
        # Of a single name only the default is there; of several, those that stand on the line already.
        given: Any = ctx.params.get(param.name or "") if param.nargs == -1 else ()
        return _items(lambda: _runs(self._offer, incomplete), without=given or ())


class AgentName(click.ParamType[str]):
    """An agent by its name."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem[str]]":
        return _items(lambda: _agents(incomplete))


def _items(find: Callable[[], Iterator[Named]], *, without: tuple[str, ...] = ()) -> "list[CompletionItem[str]]":
    from click.shell_completion import CompletionItem  # Start-up time: only a shell that asks needs it.

    found: list[CompletionItem[str]] = []
    try:
        for name, text in find():
            if name not in without and len(found) < _LIMIT:
                found.append(CompletionItem(name, help=_short(text)))
    except Exception:  # A broken state folder, whatever is wrong with it, is told by a command, not amid a prompt.
        pass
    return found


def _runs(offer: Offer, incomplete: str) -> Iterator[Named]:
    from inspan.stores.folder import active_runs, is_locked, read_json
    from inspan.stores.index import newest
    from inspan.stores.paths import state_home

    state = state_home()
    living = [folder for folder in reversed(active_runs(state)) if is_locked(folder)] if offer != "ended" else []
    for folder in living:
        if folder.run_id.startswith(incomplete):
            described = read_json(folder.file("run.json"))
            yield folder.run_id, f"{described['agent']} running: {described['task']['prompt']}"
    if _LAST.startswith(incomplete):
        yield _LAST, "the newest run"
    if offer != "living":
        for row in newest(state, limit=_LIMIT, prefix=incomplete):
            yield row.run_id, f"{row.agent} {row.outcome}: {row.prompt}"


def _agents(incomplete: str) -> Iterator[Named]:
    from inspan.engine.roster import roster_names

    for name in roster_names(os.getcwd()):
        if name.startswith(incomplete):
            yield name, ""


def _short(text: str) -> str:
    """One line that cannot move the cursor."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(line.split())[:_HELP_CHARACTERS]
