"""`inspan file-tools` as an agent's shell calls it: parses its line by the table of operations, and prints.

No click, and nothing else that the other commands load: it is started for each file that an agent looks at.
"""

import os
import sys

from inspan.errors import BadInput
from inspan.file_tools.operations import OPERATIONS, list_operations
from inspan.file_tools.root import Root

from .complaints import complain
from .streams import set_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from inspan.file_tools.operations import Operation

SERVE = "serve"
_HELP = ("-h", "--help")
_STEP = "See `inspan file-tools --help`."
_SCHEMA = 1  # That of all JSON of the command line.
_CHUNK_BYTES = 1 << 16


class _HelpAsked(Exception):
    """The line asks for help, which click prints."""


def main() -> None:
    """Runs the line and leaves; comes back if it asks for help."""
    set_up()
    words = sys.argv[2:]
    try:
        code = run(words)
    except _HelpAsked:
        return
    os._exit(code)  # All is written, and Python would take its time to take itself apart.


def run(words: "list[str]") -> int:
    """The exit code of what follows `inspan file-tools`, everything printed."""
    try:
        _run(words)
        sys.stdout.flush()
        return 0
    except _HelpAsked:
        raise
    except (Exception, KeyboardInterrupt) as error:  # The rim: each becomes a sentence.
        return complain(words, error)


def _run(words: "list[str]") -> None:
    settings, rest = _parse_settings(words)
    path, name, rest = rest[0], rest[1], rest[2:]
    operation = OPERATIONS.get(name)
    given, faces = ({}, {}) if operation is None else _parse(operation, rest)
    root = Root(path, **settings)
    if operation:
        _check_offered(root, operation)
        found = operation.call(root, given)
        _print(operation, found, as_json="json" in faces)
    elif name == SERVE and not rest:
        _serve(root)
    elif rest[:1] and rest[0] in _HELP:
        raise _HelpAsked
    else:
        problem = "it takes nothing more." if name == SERVE else "there is no such operation."
        raise BadInput("file-tools", name, problem, next_step=f"There are: {', '.join((*OPERATIONS, SERVE))}.")


def _parse_settings(words: "list[str]") -> "tuple[dict[str, Any], list[str]]":
    """What stands before ROOT is for whoever grants this command: a pattern that ends in ROOT and `*` fixes it."""
    settings: dict[str, Any] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word in _HELP:
            raise _HelpAsked
        name, equals, value = word.partition("=")
        if name == "--max-bytes":
            settings["max_bytes"] = _parse_count(name, value if equals else _take(rest, name))
        elif word in ("--read-only", "--hard-links"):
            settings[word[2:].replace("-", "_")] = True
        else:
            raise BadInput("file-tools", word, "there is no such option before ROOT.", next_step=_STEP)
    if rest[1:2] and rest[1] in _HELP:
        raise _HelpAsked
    if len(rest) < 2:
        problem = "it needs ROOT and an operation."
        raise BadInput("file-tools", " ".join(words), problem, next_step=f"There are: {', '.join(OPERATIONS)}.")
    return settings, rest


def _parse(operation: "Operation", words: "list[str]") -> "tuple[dict[str, Any], dict[str, Any]]":
    """The arguments of an operation, and those of this face: `--json` and `--input`, which holds arguments too."""
    given: dict[str, Any] = {}
    faces: dict[str, Any] = {}
    options = {each.option: each for each in operation.parameters.values() if not each.positional}
    places = [each.name for each in operation.parameters.values() if each.positional]
    rest, plain = list(words), False
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if plain or not word.startswith("-") or word == "-":
            if not places:
                raise BadInput(operation.name, word, "it takes no more arguments.", next_step=_STEP)
            given[places.pop(0)] = word
        elif word == "--":
            plain = True
        elif word in _HELP:
            raise _HelpAsked
        elif word == "--json":
            faces["json"] = True
        elif name == "--input":
            faces["input"] = value if equals else _take(rest, name)
        elif name not in options:
            step = f"{_STEP} A name that begins with a dash is written ./{word}."
            raise BadInput(operation.name, word, "there is no such option.", next_step=step)
        elif options[name].kind == "flag":
            given[options[name].name] = _parse_flag(name, equals)
        else:
            text = value if equals else _take(rest, name)
            given[options[name].name] = _parse_count(name, text) if options[name].kind == "count" else text
    if "input" in faces:
        given = {**_read_input(faces["input"]), **given}
    if operation.name == "write" and "content" not in given:
        given["content"] = _read_stdin()
    return given, faces


def _take(rest: "list[str]", name: str) -> str:
    if not rest:
        raise BadInput("file-tools", name, "it needs a value.", next_step=_STEP)
    return rest.pop(0)


def _parse_flag(name: str, equals: str) -> bool:
    if equals:
        raise BadInput("file-tools", name, "it takes no value.", next_step=_STEP)
    return True


def _parse_count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise BadInput(name, text, "it is not a whole number.", next_step="Give one, such as 100.")
    return int(text)


def _read_input(text: str) -> "dict[str, Any]":
    """The arguments as one JSON object: a line of JSON holds any text, and no line feed of its own."""
    import json  # Start-up time: plain arguments do without.

    try:
        value: Any = json.loads(_read_stdin() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        step = """Write it as in --input '{"path": "a.txt", "content": "one\\ntwo\\n"}'."""
        raise BadInput("--input", text, f"it is not JSON: {error}.", next_step=step) from error
    if not isinstance(value, dict):
        raise BadInput("--input", text, "it is not a JSON object.", next_step="Name each argument in it.")
    return value  # pyright: ignore[reportUnknownVariableType]  checked by the operation


def _read_stdin() -> str:
    if sys.stdin.isatty():
        raise BadInput("--content", "", "it is missing.", next_step="Give it, or send the text on stdin.")
    return sys.stdin.buffer.read().decode(errors="surrogateescape")


def _check_offered(root: Root, operation: "Operation") -> None:
    if operation.name not in list_operations(root):
        step = f"There are: {', '.join(list_operations(root))}."
        raise BadInput("file-tools", operation.name, "ROOT is read-only here.", next_step=step)


def _print(operation: "Operation", found: "dict[str, Any]", *, as_json: bool) -> None:
    if as_json:
        import json  # Start-up time: plain output does without.

        sys.stdout.write(json.dumps({"schema": _SCHEMA, **found}) + "\n")
        return
    text = operation.format(found)
    if sys.stdout.isatty():
        from inspan.reporters.text import escape_controls  # Start-up time: an agent reads from a pipe.

        text = escape_controls(text)
    sys.stdout.write(text)
    sys.stdout.flush()
    for note in found.get("notes", ()):
        print(f"[{note}]", file=sys.stderr)


def _serve(root: Root) -> None:
    from inspan.file_tools.mcp_server import serve  # Start-up time: it is loaded once for many calls.

    def write(line: bytes) -> None:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    serve(root, read=lambda: os.read(0, _CHUNK_BYTES), write=write)
