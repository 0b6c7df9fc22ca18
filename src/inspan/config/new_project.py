"""The text of a project's new file: what was chosen, and what else could be, as comments."""

import msgspec

_HEAD = """\
# What inspan uses in this project; commit it with the project.
# Every key, its value and where it comes from: inspan config explain
# Change one: inspan config set --project KEY VALUE
"""
_KEYS = {
    "runtime": {
        "default": ("The agent, where -a names none. All of them: inspan agents", "NAME"),
        "sandbox": (
            "What the agent can reach. bwrap: it writes only to this folder and its own; none: no limits",
            "bwrap",
        ),
    },
    "budget": {"run": ("What each run may spend: 2usd, 200ktok, 50calls, 30min, or several with commas", "2usd")},
}


class ProjectChoices(msgspec.Struct, frozen=True, kw_only=True):
    """What a new project file says; what is empty is left to the defaults."""

    agent: str = ""
    budget: str = ""
    sandbox: str = ""

    @property
    def needs_trust(self) -> bool:
        """Whether some of it counts only in a project that the user trusts."""
        return bool(self.budget or self.sandbox)


def build_project_file(choices: ProjectChoices) -> str:
    """The whole file; what was not chosen stands there as a comment."""
    values = {"default": choices.agent, "sandbox": choices.sandbox, "run": choices.budget}
    parts = [_HEAD]
    for table, keys in _KEYS.items():
        lines = [
            line for name, (doc, example) in keys.items() for line in _format_key(name, values[name], doc, example)
        ]
        parts.append(f"\n[{table}]\n" + "\n".join(lines) + "\n")
    return "".join(parts)


def _format_key(name: str, value: str, doc: str, example: str) -> list[str]:
    # A string of JSON is a basic string of TOML.
    text = msgspec.json.encode(value or example).decode()
    return [f"# {doc}.", f"{name} = {text}" if value else f"# {name} = {text}"]
