"""Perplexity: answers with sources from the web, by its Agent API, which speaks Responses.

Its Chat Completions ended on 2026-09-27. The names of their models that live on as settings of the new API are known.
"""

from inspan.contracts.dialect import Dialect
from inspan.contracts.driver import Capabilities, Channel, Driver, Launch, Place
from inspan.dialects.asking import CANNOT, asked, json_format, responses_body
from inspan.dialects.refusals import FAILURES
from inspan.dialects.responses import responses_dialect
from inspan.protocol.task import Task
from inspan.protocol.usage import Told

_MODEL = "perplexity/sonar"
# How hard it searches. Its own model is named beside it: left out, another vendor's might be taken.
_PRESETS = {name: name for name in ("fast", "low", "medium", "high", "xhigh")} | {
    "sonar-pro": "fast",
    "sonar-reasoning": "low",
    "sonar-reasoning-pro": "low",
}
_KEYS = ("PERPLEXITY_API_KEY", "PPLX_API_KEY")


def launch(task: Task, place: Place) -> Launch:
    """One call. It searches the web, as it does for everybody."""
    preset = _PRESETS.get(task.model, "")
    body = responses_body(task, place, model=_model(task))
    # A preset brings its own tools.
    body |= {"preset": preset} if preset else {"tools": [{"type": "web_search"}]}
    if task.output_schema is not None:
        body["response_format"] = json_format(task.output_schema)
    return asked(task, place, body, path="/responses", credentials=_KEYS)


def _model(task: Task) -> str:
    return _MODEL if task.model in _PRESETS else task.model or _MODEL


def dialect(task: Task, told: Told) -> Dialect:
    """Reads what came of it."""
    return responses_dialect(task, model=_model(task))


DRIVER = Driver(
    name="perplexity",
    title="Perplexity",
    program="python3",
    wire="responses",
    channels=(Channel(name="http", kind="http", launch=launch, dialect=dialect),),
    credentials=_KEYS,
    failures=FAILURES,
    login_hint="set PERPLEXITY_API_KEY",
    provider="perplexity",
    base_url="https://api.perplexity.ai/v1",
    base_url_variables=("PERPLEXITY_BASE_URL",),
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
    cannot=CANNOT,
    trial_model="openai/gpt-5.2",
    hosted=True,
)
