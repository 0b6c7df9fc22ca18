"""What no value alone has wrong, only several together: a server without a way to it, an API key in two places."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from inspan.errors import BadConfig

from .keys import add_location, format_key, refuse_agent
from .locations import Scope
from .settings import KeyPath

# Section → names that exclude each other, and whether one of them has to be there.
TABLES: dict[str, tuple[Sequence[str], bool]] = {
    "mcp": (("command", "url"), True),
    "agents": (("key_env", "key_file", "key_cmd", "keyring"), False),
    "prices": ((), False),
}
_REQUIRED_TOGETHER = {"prices": ("input", "output")}
_PRESET_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def check_table(table: KeyPath, values: Mapping[KeyPath, object], *, where: str, scope: Scope) -> None:
    """Raises `BadConfig` for a table (`mcp.NAME`, `agents.NAME`) whose keys do not go together."""
    if table[0] == "agents":
        _check_agent(table, values, where=where, scope=scope)
    if missing := [name for name in _REQUIRED_TOGETHER.get(table[0], ()) if values.get((*table, name)) is None]:
        step = f"Set {format_key((*table, missing[0]))} too."
        raise BadConfig("key", format_key(table), add_location(f"has no {missing[0]}.", where), next_step=step)
    names, needed = TABLES[table[0]]
    said = [name for name in names if values.get((*table, name))]
    if len(said) > 1:
        problem = f"has {' and '.join(said)}, which exclude each other."
        step = f'Leave one of them; {format_key((*table, said[0]))} = "" switches off what a weaker layer says.'
    elif needed and not said:
        problem = f"has neither {' nor '.join(names)}."
        step = f"Set {format_key((*table, names[0]))} first."
    else:
        return
    raise BadConfig("key", format_key(table), add_location(problem, where), next_step=step)


def _check_agent(table: KeyPath, values: Mapping[KeyPath, object], *, where: str, scope: Scope) -> None:
    """An agent of the user's own has a dialect and a name that is no other's; only such a one has a command."""
    name, known = table[1], table[1] in scope.agents
    if not values.get((*table, "dialect")):
        if not known:
            others = tuple(each for each in scope.presets if each != name)
            refuse_agent(table, scope=msgspec.structs.replace(scope, presets=others), where=where)
        for key in ("command", "flags"):
            if values.get((*table, key)):
                problem = "belongs to an agent of your own, and this is one of inspan's."
                step = f"Name its program with {format_key((*table, 'program'))}, and arguments with options."
                raise BadConfig("key", format_key((*table, key)), add_location(problem, where), next_step=step)
    elif known or not _PRESET_NAME.fullmatch(name):
        problem = "is an agent already, and stays what it is." if known else "is not a name for an agent."
        step = "Choose another name for your own." if known else "Use small letters, digits and - between them."
        raise BadConfig("key", format_key(table), add_location(problem, where), next_step=step)
