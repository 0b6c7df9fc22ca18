"""One line of 50 MB: the memory that it takes inside a program, inspan against the vendor's SDK."""

from statistics import median

from bench.stage.agents import write_agent
from bench.stage.frames import write_long_line
from bench.stage.place import place, secrets
from bench.stage.processes import side
from bench.stage.rows import Row, at_most

_LINE_BYTES = 50_000_000
_SDK_BUFFER_BYTES = 64 * 1024 * 1024
_SECRETS = 50


def measure(*, quick: bool = False) -> list[Row]:
    """Peak memory of each side over one run that holds such a line; the SDK's own limit is raised for it."""
    rounds = 1 if quick else 3
    with place() as here:
        length = write_long_line(here.path("agent", "stream.jsonl"), limit_bytes=_LINE_BYTES)
        program = write_agent(here.path("agent"))
        here.env |= {"INSPAN_CLAUDE_BIN": program, **secrets(_SECRETS)}
        ours: list[float] = []
        sdk: list[float] = []
        for _ in range(rounds):
            arguments = ("1", "1", program, str(_SDK_BUFFER_BYTES))
            sdk.append(side("sdk", *arguments, env=here.env, cwd=here.path("work"))["peak_mb"])
            ours.append(side("ours", "1", "1", "auto", env=here.env, cwd=here.path("work"))["peak_mb"])
            here.empty_runs()
    note = f"a tool result of {length} bytes with \\n and quotes escaped, {_SECRETS} secrets; {rounds} rounds"
    return [at_most("line_50mb_vs_sdk", median(ours), median(sdk), bar=0.7, unit="MB peak", note=note)]
