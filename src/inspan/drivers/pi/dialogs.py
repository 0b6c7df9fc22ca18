"""What Pi's extensions ask their user in its channel `rpc`: ours about tools, any other what it likes (1.5.0)."""

import os.path
from typing import Any

import msgspec

from inspan.dialects.json_values import as_texts, get_text
from inspan.protocol.commands import Answer
from inspan.protocol.events import Question
from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS

from .extension import ASKING_TITLE

_YES, _NO = "Yes", "No"
# They want no answer: what they show belongs to a screen.
_SHOWN_ONLY = ("notify", "setStatus", "setWidget", "setTitle", "set_editor_text")


class Request(msgspec.Struct, rename="camel", gc=False):
    """One `extension_ui_request`."""

    id: str = ""
    method: str = ""
    title: str = ""
    message: str = ""
    options: Any = None
    placeholder: str = ""
    notify_type: str = ""

    @property
    def is_shown_only(self) -> bool:
        """Whether nobody waits for an answer."""
        return self.method in _SHOWN_ONLY

    @property
    def problem(self) -> str:
        """What an extension complains about."""
        return self.message if self.method == "notify" and self.notify_type == "error" else ""


class ToolRequest(msgspec.Struct):
    """A tool that our own extension asks about: its call, its input, and the folder from which paths count."""

    id: str
    tool: str
    input: dict[str, Any]
    cwd: str

    @property
    def shown_input(self) -> dict[str, Any]:
        """The input with its file as rules name it: from the working folder on where it is in there."""
        path = get_text(self.input, "path")
        if not path:
            return self.input
        whole = os.path.normpath(os.path.join(self.cwd, path))
        return {**self.input, "file_path": whole.removeprefix(f"{self.cwd}/")}

    def restore_input(self, changed: dict[str, Any]) -> dict[str, Any]:
        """A changed input in the words of the tool, which knows no `file_path`."""
        shown, path = get_text(self.shown_input, "file_path"), get_text(changed, "file_path")
        if not shown or "file_path" in self.input:
            return changed
        own = {name: value for name, value in changed.items() if name != "file_path"}
        return {**own, "path": path} if path and path != shown else own


decode_request = msgspec.json.Decoder(know_type(Request)).decode
_decode_tool_request = msgspec.json.Decoder(know_type(ToolRequest)).decode


def read_tool_request(request: Request) -> ToolRequest | None:
    """What our own extension asks; None for any other request."""
    if request.method != "input" or request.title != ASKING_TITLE:
        return None
    try:
        return _decode_tool_request(request.placeholder)
    except DECODE_ERRORS:
        return None


def read_question(request: Request) -> Question | None:
    """What another extension asks; None where it is not known how that is answered."""
    if request.method == "select":
        return Question(text=request.title, options=as_texts(request.options))
    if request.method == "confirm":
        words = [each for each in (request.title, request.message) if each]
        return Question(text="\n".join(words), options=[_YES, _NO])
    return Question(text=request.title) if request.method in ("input", "editor") else None


def reply_to_tool(answer: Answer, changed: dict[str, Any] | None) -> dict[str, Any]:
    """A yes, with the input to use in place of its own, or a no, with the reason that the model is told."""
    given: dict[str, Any] = {"allowed": answer.allowed}
    if not answer.allowed:
        # The turn is being ended: without this, Pi would make one more call before it hears of that.
        given |= {"reason": answer.reason, "ends": answer.by == "inspan"}
    elif changed is not None:
        given["input"] = changed
    return {"value": msgspec.json.encode(given).decode()}


def reply_to_question(answer: Answer, method: str) -> dict[str, Any]:
    """The answer in the words of that kind of dialog."""
    if not answer.allowed or not answer.answers:
        return {"cancelled": True}
    value = next(iter(answer.answers.values()))
    return {"confirmed": value == _YES} if method == "confirm" else {"value": value}


def encode_reply(request_id: str, reply: dict[str, Any]) -> bytes:
    """The line that answers a request."""
    return msgspec.json.encode({"type": "extension_ui_response", "id": request_id, **reply}) + b"\n"
