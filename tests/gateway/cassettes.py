"""Cassettes in tests: a stage with any upstream behind it, and real agents in folders of their own."""

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from inspan.gateway import Gateway, Reply, Request, ScriptUpstream, Upstream, parse_scenario
from inspan.gateway.cassettes.record import RecordUpstream
from inspan.gateway.cassettes.replay import ReplayUpstream
from inspan.gateway.wires import BY_NAME
from inspan.gateway.wires.wire import Answer

from .conftest import ARGUMENTS, environment
from .scripted_gateway import TOKEN, WAIT_S, ScriptedGateway

_UNUSED = '[[call]]\nsay = "unused"\n'
ABOUT = {"inspan": "0.0.0", "agent": "someone"}
Redact = Callable[[str], str]


class UpstreamGateway(ScriptedGateway):
    """A stage whose requests go to an upstream of the test's own."""

    def __init__(self, upstream: Upstream, *, stall_timeout_s: float | None = None) -> None:
        super().__init__(_UNUSED)
        self.gateway = Gateway(
            token=TOKEN,
            upstream=upstream,
            on_call=self._calls.put,
            stall_timeout_s=stall_timeout_s,
            on_stall=self._stalls.put,
        )

    def __enter__(self) -> Self:
        super().__enter__()
        return self


class RecordingGateway(UpstreamGateway):
    """Records to a file; the recording is finished when the stage closes."""

    def __init__(
        self, path: Path, upstream: Upstream, *, redact: Redact = str, places: Mapping[str, str] | None = None
    ) -> None:
        self.recording = RecordUpstream(upstream, file=path, redact=redact, folders=places or {}, about=ABOUT)
        super().__init__(self.recording)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.recording.close()


class ReplayGateway(UpstreamGateway):
    """Plays a cassette."""

    def __init__(self, path: Path, *, redact: Redact = str, places: Mapping[str, str] | None = None) -> None:
        self.replay = ReplayUpstream(path, folders=places or {}, redact=redact)
        super().__init__(self.replay)


@dataclass(frozen=True, kw_only=True)
class AgentFolder:
    """A folder to work in and a HOME, for one run of a real agent."""

    root: Path
    programs: Mapping[str, Path]

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def folders(self) -> dict[str, str]:
        return {"cwd": str(self.work), "home": str(self.home)}

    def create(self) -> "AgentFolder":
        self.work.mkdir(parents=True)
        self.home.mkdir()
        (self.work / "edited.txt").write_text("the\nquick fox\njumps\n")
        return self

    def run(self, style: str, port: int, *, prompt: str = "do it", env: Mapping[str, str] | None = None) -> str:
        """What the agent prints, line by line; it has left by then."""
        agent = style.partition(" ")[0]
        argv = [prompt if word == "do it" else word for word in ARGUMENTS[style](port)]
        done = subprocess.run(
            [str(self.programs[agent]), *argv],
            cwd=self.work,
            env={**environment(self.root, port), **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        return done.stdout

    def files(self) -> dict[str, str]:
        return {file.name: file.read_text() for file in self.work.glob("*.txt")}


class Model:
    """A model that makes up its mind about each request."""

    def __init__(self, decide: Callable[[Request], Answer]) -> None:
        self._decide = decide

    async def answer(self, request: Request, reply: Reply) -> None:
        stream = BY_NAME[request.wire].encode_stream(self._decide(request))
        await reply.start(200, {"content-type": "text/event-stream"})
        for piece in (*stream.head, *stream.tail):
            await reply.write(piece)
        await reply.finish()


def make_script_upstream(scenario: str, *, cwd: str = "/") -> ScriptUpstream:
    return ScriptUpstream(parse_scenario(scenario, name="test"), cwd=cwd)
