"""Any server that answers Chat Completions as OpenAI does: a local one, a company's own, another provider's."""

from inspan.contracts.dialect import Dialect
from inspan.contracts.driver import (
    Access,
    Capabilities,
    Channel,
    Driver,
    Launch,
    LaunchContext,
    ProgramSpec,
    Provider,
    Trials,
)
from inspan.dialects.chat import build_chat_dialect
from inspan.dialects.http_request import HTTP_SESSION, UNSUPPORTED_SCENARIOS, build_chat_body, build_launch
from inspan.dialects.provider_errors import FAILURES
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals

_KEYS = ("OPENAI_COMPATIBLE_API_KEY", "OPENAI_API_KEY")


def launch(task: Task, context: LaunchContext) -> Launch:
    """One call to the address and the model that the task names."""
    return build_launch(
        task, context, build_chat_body(task, context, model=task.model), path="/chat/completions", credentials=_KEYS
    )


def build_dialect(task: Task, reported: SessionTotals) -> Dialect:
    """Reads what came of it."""
    return build_chat_dialect(task, model=task.model)


DRIVER = Driver(
    name="openai-compatible",
    title="OpenAI-compatible API",
    program=ProgramSpec(
        command="python3",
        hosted=True,
    ),
    provider=Provider(
        wire="chat",
        credentials=_KEYS,
        base_url_variables=("OPENAI_COMPATIBLE_BASE_URL", "OPENAI_BASE_URL"),
    ),
    channels=(Channel(name="http", kind="http", launch=launch, dialect=build_dialect, session=HTTP_SESSION),),
    failures=FAILURES,
    access=Access(
        login_hint="set OPENAI_COMPATIBLE_API_KEY, where the server asks for a key",
        required_fields=("base_url", "model"),
        key_optional=True,
    ),
    capabilities=Capabilities(
        exec="no",
        review="yes",
        complete="yes",
        streams_text=True,
        output_schema="yes",
        system_prompt="yes",
        append_system_prompt="yes",
        max_turns="yes",
        reports_denials="yes",
        efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
        attachments=("image/png", "image/jpeg", "image/gif", "image/webp"),
        notes={
            "exec": "It is an API without tools on this machine: use --mode complete, or --mode review with --attach.",
            "review": "It sees the files that are attached, and no others.",
            "resume": "Each run is one call: it keeps no session to come back to. Say again what it has to know.",
            "output_schema": "The server has to know `response_format`; `--option response_format=null` leaves it out.",
            "efforts": "Passed on as it is; not every model takes every one.",
        },
    ),
    trials=Trials(
        unsupported_scenarios=UNSUPPORTED_SCENARIOS,
        trial_model="llama",
    ),
)
