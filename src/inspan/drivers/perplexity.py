"""Perplexity: answers with sources from the web, by its Agent API, which speaks Responses.

Its Chat Completions ended on 2026-09-27. The names of their models that live on as settings of the new API are known.
"""

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
from inspan.dialects.http_request import (
    HTTP_SESSION,
    UNSUPPORTED_SCENARIOS,
    build_launch,
    build_responses_body,
    json_schema_format,
)
from inspan.dialects.provider_errors import FAILURES
from inspan.dialects.responses import build_responses_dialect
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals

_MODEL = "perplexity/sonar"
# How hard it searches. Its own model is named beside it: left out, another vendor's might be taken.
_PRESETS = {name: name for name in ("fast", "low", "medium", "high", "xhigh")} | {
    "sonar-pro": "fast",
    "sonar-reasoning": "low",
    "sonar-reasoning-pro": "low",
}
_KEYS = ("PERPLEXITY_API_KEY", "PPLX_API_KEY")


def launch(task: Task, context: LaunchContext) -> Launch:
    """One call. It searches the web, as it does for everybody."""
    preset = _PRESETS.get(task.model, "")
    body = build_responses_body(task, context, model=_model_name(task))
    # A preset brings its own tools.
    body |= {"preset": preset} if preset else {"tools": [{"type": "web_search"}]}
    if task.output_schema is not None:
        body["response_format"] = json_schema_format(task.output_schema)
    return build_launch(task, context, body, path="/responses", credentials=_KEYS)


def _model_name(task: Task) -> str:
    return _MODEL if task.model in _PRESETS else task.model or _MODEL


def build_dialect(task: Task, reported: SessionTotals) -> Dialect:
    """Reads what came of it."""
    return build_responses_dialect(task, model=_model_name(task))


DRIVER = Driver(
    name="perplexity",
    title="Perplexity",
    program=ProgramSpec(
        command="python3",
        hosted=True,
    ),
    provider=Provider(
        wire="responses",
        credentials=_KEYS,
        vendor="perplexity",
        base_url="https://api.perplexity.ai/v1",
        base_url_variables=("PERPLEXITY_BASE_URL",),
    ),
    channels=(Channel(name="http", kind="http", launch=launch, dialect=build_dialect, session=HTTP_SESSION),),
    failures=FAILURES,
    access=Access(
        login_hint="set PERPLEXITY_API_KEY",
        needs_credential=True,
    ),
    models={"sonar": _MODEL},
    capabilities=Capabilities(
        exec="no",
        review="yes",
        complete="yes",
        streams_text=True,
        reports_cost=True,
        output_schema="yes",
        system_prompt="yes",
        append_system_prompt="yes",
        max_turns="yes",
        reports_denials="yes",
        efforts=("minimal", "low", "medium", "high", "xhigh"),
        attachments=("image/png", "image/jpeg", "image/gif", "image/webp"),
        notes={
            "exec": "It is an API without tools on this machine: use --mode complete, or --mode review with --attach.",
            "review": "It sees the files that are attached, and no others.",
            "complete": "It searches the web on its provider's side; `--option tools=null` leaves that out.",
            "resume": "Each run is one call: it keeps no session to come back to. Say again what it has to know.",
        },
    ),
    trials=Trials(
        unsupported_scenarios={
            **UNSUPPORTED_SCENARIOS,
            "complete": "It searches the web at its provider, in every mode, unless `--option tools=null` is given; "
            "nothing of that reaches this machine.",
        },
        trial_model="openai/gpt-5.2",
    ),
)
