"""From the first word to the prompt: what is asked of an agent in turn, and what its answers lead to."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from inspan import __version__
from inspan.framing.jsonrpc import METHOD_NOT_FOUND, Problem, request
from inspan.protocol.outcome import FailureKind

from .opening import Opening
from .settings import MODE, MODEL, OPTION, NotOffered, Settings, Trouble, mapping, mappings

VERSION = 1
AUTH_REQUIRED = -32000
# Each method has an id of its own, so that an answer tells by itself what it answers: a recording is read without
# knowing what was asked.
INITIALIZE, AUTHENTICATE, NEW, LOAD, RESUME, FORK = 1, 2, 3, 4, 5, 6
SESSIONS = frozenset({NEW, LOAD, RESUME, FORK})
PROMPT = 100


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What comes next: frames to send, or trouble; `ready` once the session stands and the prompt goes with it."""

    frames: tuple[bytes, ...] = ()
    trouble: Trouble | None = None
    ready: bool = False


class Handshake:
    """Leads from `initialize` to `session/prompt`. Knows what the agent has told of itself."""

    def __init__(self) -> None:
        self.opening = Opening()
        self.session_id = ""
        self.model = ""
        self.agent_version = ""
        self.prompted = False
        self._abilities: dict[str, Any] = {}
        self._sign_in: list[str] = []
        self._tried = NEW
        self._left: list[tuple[int, str, dict[str, Any]]] = []

    def begin(self, opening: Opening) -> bytes:
        """The first request."""
        self.opening = opening
        params = {
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False},
            "clientInfo": {"name": "inspan", "title": "inspan", "version": __version__},
        }
        return request(INITIALIZE, "initialize", params)

    def answered(self, identity: int, result: Any) -> Step | None:
        """The step after an answer; nothing for an answer that belongs to no step."""
        told = mapping(result)
        if identity == INITIALIZE:
            return self._initialized(told)
        if identity == AUTHENTICATE:
            return Step(frames=(self._session(self._tried),))
        if identity in SESSIONS:
            return self._opened(told)
        return self._next() if identity in (MODE, MODEL) or OPTION <= identity < PROMPT else None

    def refused(self, identity: int, problem: Problem) -> Step | None:
        """The step after an answer that is an error; nothing where the dialect itself knows what it means."""
        words = told_by(problem)
        if identity in SESSIONS:
            return self._not_opened(identity, problem, words)
        failures: dict[int, FailureKind] = {AUTHENTICATE: "authentication", MODEL: "model_not_found"}
        if identity in failures:
            return Step(trouble=Trouble(failure=failures[identity], message=words))
        if identity in (INITIALIZE, MODE) or OPTION <= identity < PROMPT:
            return Step(trouble=Trouble(failure="environment", message=words))
        return None

    def _initialized(self, told: Mapping[str, Any]) -> Step:
        version = told.get("protocolVersion")
        self._abilities = mapping(told.get("agentCapabilities"))
        self.agent_version = str(mapping(told.get("agentInfo")).get("version") or "")
        offered = [str(method.get("id")) for method in mappings(told.get("authMethods"))]
        self._sign_in = [name for name in self.opening.sign_in if name in offered]
        if version != VERSION:
            return _impossible(f"it speaks version {version} of the Agent Client Protocol; inspan speaks {VERSION}")
        if trouble := self._unable():
            return _impossible(trouble)
        self._tried = self._way_in()
        if not self._tried:
            what = "a copy of a session" if self.opening.fork else "an earlier session"
            return _impossible(f"it does not offer to go on with {what}")
        return Step(frames=(self._session(self._tried),))

    def _unable(self) -> str:
        """What was asked for and the agent does not take, in words."""
        takes = mapping(self._abilities.get("promptCapabilities"))
        if any(block.get("type") == "image" for block in self.opening.prompt) and not takes.get("image"):
            return "it takes no images"
        reaches = mapping(self._abilities.get("mcpCapabilities"))
        if any(server.get("type") == "http" for server in self.opening.servers) and not reaches.get("http"):
            return "it takes no servers of tools by HTTP"
        return ""

    def _way_in(self) -> int:
        offers = mapping(self._abilities.get("sessionCapabilities"))
        if not self.opening.resume:
            return NEW
        if self.opening.fork:
            return FORK if offers.get("fork") is not None else 0
        if offers.get("resume") is not None:
            return RESUME
        return LOAD if self._abilities.get("loadSession") else 0

    def _session(self, way: int) -> bytes:
        offers = mapping(self._abilities.get("sessionCapabilities"))
        params: dict[str, Any] = {"cwd": self.opening.cwd, "mcpServers": self.opening.servers}
        if self.opening.folders and offers.get("additionalDirectories") is not None:
            params["additionalDirectories"] = self.opening.folders
        if self.opening.meta:
            params["_meta"] = self.opening.meta
        if way != NEW:
            params["sessionId"] = self.opening.resume
        methods = {NEW: "session/new", LOAD: "session/load", RESUME: "session/resume", FORK: "session/fork"}
        return request(way, methods[way], params)

    def _not_opened(self, identity: int, problem: Problem, words: str) -> Step:
        if problem.code == AUTH_REQUIRED and self._sign_in:
            method = self._sign_in.pop(0)
            return Step(frames=(request(AUTHENTICATE, "authenticate", {"methodId": method}),))
        if identity == RESUME and problem.code == METHOD_NOT_FOUND and self._abilities.get("loadSession"):
            self._tried = LOAD
            return Step(frames=(self._session(LOAD),))
        if problem.code == AUTH_REQUIRED:
            return Step(trouble=Trouble(failure="authentication", message=words))
        failure: FailureKind = "unknown" if identity == NEW else "session_not_found"
        return Step(trouble=Trouble(failure=failure, message=words))

    def _opened(self, told: Mapping[str, Any]) -> Step:
        self.session_id = str(told.get("sessionId") or self.opening.resume or self.session_id)
        settings = Settings(told)
        self.model = self.opening.model or settings.model
        try:
            self._left = list(self._wanted(settings))
        except NotOffered as error:
            return Step(trouble=error.trouble)
        return self._next()

    def _wanted(self, settings: Settings) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """The settings to be made, each as an id, a method and its parameters."""
        wanted = self.opening
        if wanted.modes:
            yield from settings.choice_of_mode(wanted.modes)
        if wanted.model and wanted.model != settings.model:
            yield settings.choice_of_model(wanted.model)
        for number, (name, value) in enumerate(wanted.options.items()):
            yield OPTION + number, "session/set_config_option", settings.choice_of(name, value)

    def _next(self) -> Step:
        if self.prompted:
            return Step()
        if self._left:
            identity, method, params = self._left.pop(0)
            return Step(frames=(request(identity, method, {"sessionId": self.session_id, **params}),))
        self.prompted = True
        params = {"sessionId": self.session_id, "prompt": self.opening.prompt}
        return Step(frames=(request(PROMPT, "session/prompt", params),), ready=True)


def told_by(problem: Problem) -> str:
    """An error in its own words, with what it says besides."""
    data = problem.data
    if isinstance(data, dict):
        known = cast(dict[str, Any], data)
        data = next((known[name] for name in ("details", "message", "error", "reason") if known.get(name)), None)
    more = data if isinstance(data, str) else msgspec.json.encode(data).decode() if data else ""
    return f"{problem.message}: {more}" if more and more not in problem.message else problem.message


def _impossible(words: str) -> Step:
    return Step(trouble=Trouble(failure="environment", message=words))
