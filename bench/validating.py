"""How long `validate_environment` takes when the machine was looked at before."""

from bench.stage.agents import write_agent
from bench.stage.place import place
from bench.stage.processes import side
from bench.stage.rows import Row, at_most_alone


def measure(*, quick: bool = False) -> list[Row]:
    """Calls inside a warm program; what they find was found before, by another process."""
    calls = 20 if quick else 200
    with place() as here:
        program = write_agent(here.path("agent"))
        here.env |= {"INSPAN_CLAUDE_BIN": program, "ANTHROPIC_API_KEY": "sk-ant-api03-0123456789abcdefghij"}
        side("validate", "1", env=here.env, cwd=here.path("work"))
        told = side("validate", str(calls), env=here.env, cwd=here.path("work"))
    note = f"median of {calls} calls; the first call of a process, with its imports: {told['first_ms']:.1f} ms"
    return [at_most_alone("warm_validate_ms", told["median_ms"], bar=20, unit="ms", note=note)]
