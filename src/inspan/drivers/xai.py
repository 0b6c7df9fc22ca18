"""xAI: Grok by its Responses API. Chat Completions are on the way out there (grok-4.7, October 2026)."""

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
from inspan.dialects.http_request import HTTP_SESSION, UNSUPPORTED_SCENARIOS, build_launch, build_responses_body
from inspan.dialects.provider_errors import FAILURES
from inspan.dialects.responses import build_responses_dialect
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals

_MODEL = "grok-4.7"
_KEYS = ("XAI_API_KEY",)


def launch(task: Task, context: LaunchContext) -> Launch:
    """One call. It is not kept on the provider's side."""
    body = build_responses_body(task, context, model=task.model or _MODEL)
    if task.output_schema is not None:
        body["text"] = {
            "format": {"type": "json_schema", "name": "answer", "schema": task.output_schema, "strict": True}
        }
    return build_launch(task, context, body, path="/responses", credentials=_KEYS)


def build_dialect(task: Task, reported: SessionTotals) -> Dialect:
    """Reads what came of it."""
    return build_responses_dialect(task, model=task.model or _MODEL)


DRIVER = Driver(
    name="xai",
    title="xAI",
    program=ProgramSpec(
        command="python3",
        hosted=True,
    ),
    provider=Provider(
        wire="responses",
        credentials=_KEYS,
        vendor="x-ai",
        base_url="https://api.x.ai/v1",
        base_url_variables=("XAI_BASE_URL",),
    ),
    channels=(Channel(name="http", kind="http", launch=launch, dialect=build_dialect, session=HTTP_SESSION),),
    failures=FAILURES,
    access=Access(
        login_hint="set XAI_API_KEY",
        needs_credential=True,
    ),
    models={"grok": _MODEL},
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
        efforts=("none", "low", "medium", "high", "xhigh"),
        attachments=("image/png", "image/jpeg"),
        notes={
            "exec": "It is an API without tools on this machine: use --mode complete, or --mode review with --attach.",
            "review": "It sees the files that are attached, and no others.",
            "resume": "Each run is one call: it keeps no session to come back to. Say again what it has to know.",
            "efforts": "Not every model takes every one.",
        },
    ),
    trials=Trials(
        unsupported_scenarios=UNSUPPORTED_SCENARIOS,
        trial_model="grok-4.3",
    ),
)
