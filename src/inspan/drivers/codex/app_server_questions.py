"""What `codex app-server` asks, and how an answer is put: commands, patches, tools of MCP servers, questions."""

import shlex
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput
from inspan.dialects.elicitation import fill_form, read_questions
from inspan.dialects.json_values import Json, as_object, as_objects, get_text
from inspan.dialects.question_ids import name_question
from inspan.framing import jsonrpc
from inspan.framing.jsonrpc import Id, Message
from inspan.protocol.commands import Answer
from inspan.protocol.events import ErrorReported, PermissionAsked, Question, QuestionAsked

_SHELLS = ("bash", "zsh", "sh")
Spell = Callable[[Answer], Json]


class _Asked(NamedTuple):
    """A question that waits: its id in the protocol, and how its answer is put."""

    id: Id | None
    spell: Spell


class ServerQuestions:
    """Those that are open; `asks` says that somebody is there to answer. `open_items` are the items that have begun, by
    their id: questions only name them."""

    def __init__(self, open_items: Mapping[str, Json], *, asks: bool) -> None:
        self._open_items = open_items
        self._asks = asks
        self._asked: dict[str, _Asked] = {}
        self._methods: dict[str, Callable[[Message, Json], DialectOutput]] = {
            "item/commandExecution/requestApproval": self._on_command,
            "item/fileChange/requestApproval": self._on_patch,
            "item/tool/requestUserInput": self._on_user_input,
            "mcpServer/elicitation/request": self._on_elicitation,
        }

    def ask(self, message: Message) -> DialectOutput | None:
        """The question as an event; None for a request that is not known."""
        handler = self._methods.get(message.method)
        return handler(message, as_object(message.params)) if handler else None

    def answer(self, answer: Answer) -> DialectOutput:
        asked = self._asked.pop(answer.id, None)
        return DialectOutput(frames=[jsonrpc.encode_result(asked.id, asked.spell(answer))]) if asked else NO_OUTPUT

    def clear(self) -> None:
        """The turn is over: nobody waits for an answer any more."""
        self._asked.clear()

    def _on_command(self, message: Message, params: Json) -> DialectOutput:
        return self._ask(message, _spell_decision, _to_asked(params, tool="shell", given=_describe_command(params)))

    def _on_patch(self, message: Message, params: Json) -> DialectOutput:
        patch = self._open_items.get(get_text(params, "itemId"), {})
        given = _describe_patch(as_objects(patch.get("changes")))
        return self._ask(message, _spell_decision, _to_asked(params, tool="apply_patch", given=given))

    def _on_elicitation(self, message: Message, params: Json) -> DialectOutput:
        """A server's question. Whether one of its tools may be called is asked in this way too."""
        server, meta = get_text(params, "serverName"), as_object(params.get("_meta"))
        if meta.get("codex_approval_kind") != "mcp_tool_call":
            return self._on_form(message, params, server)
        given = meta.get("tool_params")
        identity, tool = self._find_call(server, given)
        asked = PermissionAsked(
            id=identity or f"asked-{message.id}", tool=tool, input=given, reason=get_text(params, "message")
        )
        return self._ask(message, _spell_action, asked)

    def _on_form(self, message: Message, params: Json, server: str) -> DialectOutput:
        """What a server itself wants to know."""
        words, schema = get_text(params, "message"), params.get("requestedSchema")
        if not self._asks or params.get("mode") != "form":
            told = f"the MCP server {server} asked what nobody is asked here: {words}"
            declined = jsonrpc.encode_result(message.id, _spell_action(None))
            return DialectOutput([ErrorReported(message=told)], [declined])

        def spell(answer: Answer) -> Json:
            filled = fill_form(words, schema, answer.answers) if answer.allowed else None
            return {"action": "decline" if filled is None else "accept", "content": filled, "_meta": None}

        identity = f"asked-{message.id}"
        self._asked[identity] = _Asked(message.id, spell)
        return DialectOutput([QuestionAsked(id=identity, questions=read_questions(words, schema))])

    def _find_call(self, server: str, given: object) -> tuple[str, str]:
        """The call that is asked about, which is not named: its id, and the tool as rules have it."""
        for identity, raw in self._open_items.items():
            if (
                identity not in self._asked
                and raw.get("server") == server
                and (raw.get("arguments") or None) == (given or None)
            ):
                return identity, f"mcp__{server}__{get_text(raw, 'tool')}"
        return "", f"mcp__{server}"

    def _ask(self, message: Message, spell: Spell, asked: PermissionAsked) -> DialectOutput:
        identity = name_question(asked.id, self._asked)
        self._asked[identity] = _Asked(message.id, spell)
        return DialectOutput([msgspec.structs.replace(asked, id=identity)])

    def _on_user_input(self, message: Message, params: Json) -> DialectOutput:
        names = {get_text(each, "question"): get_text(each, "id") for each in as_objects(params.get("questions"))}

        def spell(answer: Answer) -> Json:
            given = {names[text]: {"answers": [words]} for text, words in answer.answers.items() if text in names}
            return {"answers": given}

        identity = name_question(get_text(params, "itemId"), self._asked)
        self._asked[identity] = _Asked(message.id, spell)
        return DialectOutput([QuestionAsked(id=identity, questions=_read_questions(params))])


def _to_asked(params: Json, *, tool: str, given: Json) -> PermissionAsked:
    identity = get_text(params, "approvalId") or get_text(params, "itemId")
    return PermissionAsked(id=identity, tool=tool, input=given, reason=get_text(params, "reason"))


def _spell_decision(answer: Answer) -> Json:
    return {"decision": "accept" if answer.allowed else "decline"}


def _spell_action(answer: Answer | None) -> Json:
    allowed = answer is not None and answer.allowed
    return {"action": "accept" if allowed else "decline", "content": {} if allowed else None, "_meta": None}


def _describe_command(params: Json) -> Json:
    """What it wants to run: the command as the model gave it, without the shell around it."""
    given: Json = {"command": _unwrap(get_text(params, "command"))}
    if folder := get_text(params, "cwd"):
        given["cwd"] = folder
    return given


def _unwrap(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    is_wrapped = len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-lc", "-c")
    return words[2] if is_wrapped else command


def _describe_patch(changes: list[Json]) -> Json:
    """What it wants to change. Several files stand on lines of their own: a rule that allows one is not for all."""
    paths = [get_text(each, "path") for each in changes]
    paths += [moved for each in changes if (moved := get_text(as_object(each.get("kind")), "move_path"))]
    return {"file_path": "\n".join(paths), "diff": "\n".join(get_text(each, "diff") for each in changes)}


def _read_questions(params: Json) -> list[Question]:
    return [
        Question(
            text=get_text(each, "question"),
            options=[get_text(option, "label") for option in as_objects(each.get("options"))],
            secret=bool(each.get("isSecret")),
        )
        for each in as_objects(params.get("questions"))
    ]
