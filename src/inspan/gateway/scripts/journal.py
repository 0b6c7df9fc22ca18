"""What passed between an agent and a script, line by line, in a file of the user's."""

import msgspec

from inspan.contracts.journal import JournalEntry, OfferedTool
from inspan.gateway.upstream import Ask

from .tool_kinds import classify_built_in, classify_tool


class Journal:
    """Adds a line for each request to a file; raises `OSError` where that cannot be written."""

    def __init__(self, path: str) -> None:
        self._path = path

    def add(self, entry: JournalEntry) -> None:
        """Writes the line before anybody is answered."""
        with open(self._path, "ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")


def list_offered_tools(ask: Ask) -> list[OfferedTool]:
    """Every tool that a request offers, whatever its name and its kind."""
    declared = [
        OfferedTool(
            name=tool.name, does=classify_tool(tool), kind=tool.kind, namespace=tool.namespace, fields={**tool.fields}
        )
        for tool in ask.tools
    ]
    return declared + [OfferedTool(name=name, does=classify_built_in(name), kind="built-in") for name in ask.built_in]
