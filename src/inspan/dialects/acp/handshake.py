"""From the first word to the prompt: what is asked of an agent in turn, and what its answers lead to."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from inspan import __version__
from inspan.framing.jsonrpc import METHOD_NOT_FOUND, RpcError, encode_request
from inspan.protocol.outcome import FailureKind

from .session_setup import SessionSetup
from .settings import MODE, MODEL, OPTION, NotOffered, Settings, SetupProblem, as_object, as_objects

VERSION = 1
AUTH_REQUIRED = -32000
# Each method has an id of its own, so that an answer tells by itself what it answers: a recording is read without
# knowing what was asked.
INITIALIZE, AUTHENTICATE, NEW, LOAD, RESUME, FORK = 1, 2, 3, 4, 5, 6
SESSIONS = frozenset({NEW, LOAD, RESUME, FORK})
PROMPT = 100


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What comes next: frames to send, or trouble; `ready` once the session stands, and the prompt goes with it unless
    messages are sent one by one."""

    frames: tuple[bytes, ...] = ()
    problem: SetupProblem | None = None
    ready: bool = False


class Handshake:
    """Leads from `initialize` to `session/prompt`. Knows what the agent has told of itself."""

    def __init__(self, *, prompts: bool = True) -> None:
        self._prompts = prompts
        self.setup = SessionSetup()
        self.session_id = ""
        self.model = ""
        self.agent_version = ""
        self.prompted = False
        self._capabilities: dict[str, Any] = {}
        self._auth_methods: list[str] = []
        self._session_method = NEW
        self._pending_settings: list[tuple[int, str, dict[str, Any]]] = []

    def begin(self, setup: SessionSetup) -> bytes:
        """The first request."""
        self.setup = setup
        params = {
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False},
            "clientInfo": {"name": "inspan", "title": "inspan", "version": __version__},
        }
        return encode_request(INITIALIZE, "initialize", params)

    def on_result(self, identity: int, result: Any) -> Step | None:
        """The step after an answer; nothing for an answer that belongs to no step."""
        fields = as_object(result)
        if identity == INITIALIZE:
            return self._on_initialize_result(fields)
        if identity == AUTHENTICATE:
            return Step(frames=(self._session_request(self._session_method),))
        if identity in SESSIONS:
            return self._on_session_result(fields)
        return self._next_step() if identity in (MODE, MODEL) or OPTION <= identity < PROMPT else None

    def on_error(self, identity: int, problem: RpcError) -> Step | None:
        """The step after an answer that is an error; nothing where the dialect itself knows what it means."""
        words = describe_error(problem)
        if identity in SESSIONS:
            return self._on_session_error(identity, problem, words)
        failures: dict[int, FailureKind] = {AUTHENTICATE: "authentication", MODEL: "model_not_found"}
        if identity in failures:
            return Step(problem=SetupProblem(failure=failures[identity], message=words))
        if identity in (INITIALIZE, MODE) or OPTION <= identity < PROMPT:
            return Step(problem=SetupProblem(failure="environment", message=words))
        return None

    def _on_initialize_result(self, result: Mapping[str, Any]) -> Step:
        version = result.get("protocolVersion")
        self._capabilities = as_object(result.get("agentCapabilities"))
        self.agent_version = str(as_object(result.get("agentInfo")).get("version") or "")
        offered = [str(method.get("id")) for method in as_objects(result.get("authMethods"))]
        self._auth_methods = [name for name in self.setup.sign_in if name in offered]
        if version != VERSION:
            return _fail_setup(f"it speaks version {version} of the Agent Client Protocol; inspan speaks {VERSION}")
        if trouble := self._find_unsupported():
            return _fail_setup(trouble)
        self._session_method = self._choose_session_method()
        if not self._session_method:
            what = "a copy of a session" if self.setup.fork else "an earlier session"
            return _fail_setup(f"it cannot resume {what}")
        return Step(frames=(self._session_request(self._session_method),))

    def _find_unsupported(self) -> str:
        """What was asked for and the agent does not take, in words."""
        takes = as_object(self._capabilities.get("promptCapabilities"))
        if any(block.get("type") == "image" for block in self.setup.prompt) and not takes.get("image"):
            return "it does not support images"
        reaches = as_object(self._capabilities.get("mcpCapabilities"))
        if any(server.get("type") == "http" for server in self._choose_servers()) and not reaches.get("http"):
            return "it does not support MCP servers over HTTP"
        return ""

    def _choose_servers(self) -> list[dict[str, Any]]:
        """The servers as this agent takes them: our own by stdin and stdout where it does not announce HTTP."""
        if as_object(self._capabilities.get("mcpCapabilities")).get("http"):
            return self.setup.servers
        bridges = {bridge["name"]: bridge for bridge in self.setup.bridges}
        return [bridges.get(server.get("name"), server) for server in self.setup.servers]

    def _choose_session_method(self) -> int:
        offers = as_object(self._capabilities.get("sessionCapabilities"))
        if not self.setup.resume:
            return NEW
        if self.setup.fork:
            return FORK if offers.get("fork") is not None else 0
        if offers.get("resume") is not None:
            return RESUME
        return LOAD if self._capabilities.get("loadSession") else 0

    def _session_request(self, method: int) -> bytes:
        offers = as_object(self._capabilities.get("sessionCapabilities"))
        params: dict[str, Any] = {"cwd": self.setup.cwd, "mcpServers": self._choose_servers()}
        if self.setup.folders and offers.get("additionalDirectories") is not None:
            params["additionalDirectories"] = self.setup.folders
        if self.setup.meta:
            params["_meta"] = self.setup.meta
        if method != NEW:
            params["sessionId"] = self.setup.resume
        methods = {NEW: "session/new", LOAD: "session/load", RESUME: "session/resume", FORK: "session/fork"}
        return encode_request(method, methods[method], params)

    def _on_session_error(self, identity: int, problem: RpcError, words: str) -> Step:
        if problem.code == AUTH_REQUIRED and self._auth_methods:
            method = self._auth_methods.pop(0)
            return Step(frames=(encode_request(AUTHENTICATE, "authenticate", {"methodId": method}),))
        if identity == RESUME and problem.code == METHOD_NOT_FOUND and self._capabilities.get("loadSession"):
            self._session_method = LOAD
            return Step(frames=(self._session_request(LOAD),))
        if problem.code == AUTH_REQUIRED:
            return Step(problem=SetupProblem(failure="authentication", message=words))
        failure: FailureKind = "unknown" if identity == NEW else "session_not_found"
        return Step(problem=SetupProblem(failure=failure, message=words))

    def _on_session_result(self, result: Mapping[str, Any]) -> Step:
        self.session_id = str(result.get("sessionId") or self.setup.resume or self.session_id)
        settings = Settings(result)
        self.model = self.setup.model or settings.model
        try:
            self._pending_settings = list(self._iter_settings(settings))
        except NotOffered as error:
            return Step(problem=error.problem)
        return self._next_step()

    def _iter_settings(self, settings: Settings) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """The settings to be made, each as an id, a method and its parameters."""
        wanted = self.setup
        if wanted.modes:
            yield from settings.iter_mode_requests(wanted.modes)
        if wanted.model and wanted.model != settings.model:
            yield settings.model_request(wanted.model)
        for number, (name, value) in enumerate(wanted.options.items()):
            yield OPTION + number, "session/set_config_option", settings.option_params(name, value)

    def _next_step(self) -> Step:
        if self.prompted:
            return Step()
        if self._pending_settings:
            identity, method, params = self._pending_settings.pop(0)
            return Step(frames=(encode_request(identity, method, {"sessionId": self.session_id, **params}),))
        self.prompted = True
        return Step(frames=(self.prompt_request(PROMPT, self.setup.prompt),) if self._prompts else (), ready=True)

    def prompt_request(self, identity: int, prompt: list[dict[str, Any]]) -> bytes:
        """A prompt for the session that stands."""
        return encode_request(identity, "session/prompt", {"sessionId": self.session_id, "prompt": prompt})


def describe_error(problem: RpcError) -> str:
    """An error in its own words, with what it says besides."""
    data = problem.data
    if isinstance(data, dict):
        known = cast(dict[str, Any], data)
        data = next((known[name] for name in ("details", "message", "error", "reason") if known.get(name)), None)
    more = data if isinstance(data, str) else msgspec.json.encode(data).decode() if data else ""
    return f"{problem.message}: {more}" if more and more not in problem.message else problem.message


def _fail_setup(words: str) -> Step:
    return Step(problem=SetupProblem(failure="environment", message=words))
