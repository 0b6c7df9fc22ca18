"""What no value alone has wrong, only several together: a server without a way to it, an API key in two places."""

from collections.abc import Mapping, Sequence

from inspan.errors import BadConfig

from .keys import spelled, told
from .settings import KeyPath

# Section → names that exclude each other, and whether one of them has to be there.
TABLES: dict[str, tuple[Sequence[str], bool]] = {
    "mcp": (("command", "url"), True),
    "agents": (("key_env", "key_file", "key_cmd", "keyring"), False),
    "prices": ((), False),
}
_TOGETHER = {"prices": ("input", "output")}


def check(table: KeyPath, values: Mapping[KeyPath, object], *, where: str) -> None:
    """Raises `BadConfig` for a table (`mcp.NAME`, `agents.NAME`) whose keys do not go together."""
    if missing := [name for name in _TOGETHER.get(table[0], ()) if values.get((*table, name)) is None]:
        step = f"Set {spelled((*table, missing[0]))} too."
        raise BadConfig("key", spelled(table), told(f"has no {missing[0]}.", where), next_step=step)
    names, needed = TABLES[table[0]]
    said = [name for name in names if values.get((*table, name))]
    if len(said) > 1:
        problem = f"has {' and '.join(said)}, which exclude each other."
        step = f'Leave one of them; {spelled((*table, said[0]))} = "" switches off what a weaker layer says.'
    elif needed and not said:
        problem = f"has neither {' nor '.join(names)}."
        step = f"Set {spelled((*table, names[0]))} first."
    else:
        return
    raise BadConfig("key", spelled(table), told(problem, where), next_step=step)
