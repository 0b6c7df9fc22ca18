"""xAI: Grok by its Responses API. Chat Completions are on the way out there (grok-4.7, October 2026)."""

from inspan.contracts.dialect import Dialect
from inspan.contracts.driver import Capabilities, Channel, Driver, Launch, Place
from inspan.dialects.asking import CANNOT, asked, responses_body
from inspan.dialects.refusals import FAILURES
from inspan.dialects.responses import responses_dialect
from inspan.protocol.task import Task
from inspan.protocol.usage import Told

_MODEL = "grok-4.7"
_KEYS = ("XAI_API_KEY",)


def launch(task: Task, place: Place) -> Launch:
    """One call. It is not kept on the provider's side."""
    body = responses_body(task, place, model=task.model or _MODEL)
    if task.output_schema is not None:
        body["text"] = {
            "format": {"type": "json_schema", "name": "answer", "schema": task.output_schema, "strict": True}
        }
    return asked(task, place, body, path="/responses", credentials=_KEYS)


def dialect(task: Task, told: Told) -> Dialect:
    """Reads what came of it."""
    return responses_dialect(task, model=task.model or _MODEL)


DRIVER = Driver(
    name="xai",
    title="xAI",
    program="python3",
    wire="responses",
    channels=(Channel(name="http", kind="http", launch=launch, dialect=dialect),),
    credentials=_KEYS,
    failures=FAILURES,
    login_hint="set XAI_API_KEY",
    provider="x-ai",
    base_url="https://api.x.ai/v1",
    base_url_variables=("XAI_BASE_URL",),
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
    cannot=CANNOT,
    trial_model="grok-4.3",
    hosted=True,
)
