"""Any server that answers Chat Completions as OpenAI does: a local one, a company's own, another provider's."""

from inspan.contracts.dialect import Dialect
from inspan.contracts.driver import Capabilities, Channel, Driver, Launch, Place
from inspan.dialects.asking import CANNOT, asked, chat_body
from inspan.dialects.chat import chat_dialect
from inspan.dialects.refusals import FAILURES
from inspan.protocol.task import Task
from inspan.protocol.usage import Told

_KEYS = ("OPENAI_COMPATIBLE_API_KEY", "OPENAI_API_KEY")


def launch(task: Task, place: Place) -> Launch:
    """One call to the address and the model that the task names."""
    return asked(task, place, chat_body(task, place, model=task.model), path="/chat/completions", credentials=_KEYS)


def dialect(task: Task, told: Told) -> Dialect:
    """Reads what came of it."""
    return chat_dialect(task, model=task.model)


DRIVER = Driver(
    name="openai-compatible",
    title="OpenAI-compatible API",
    program="python3",
    wire="chat",
    channels=(Channel(name="http", kind="http", launch=launch, dialect=dialect),),
    credentials=_KEYS,
    failures=FAILURES,
    login_hint="set OPENAI_COMPATIBLE_API_KEY, where the server asks for a key",
    base_url_variables=("OPENAI_COMPATIBLE_BASE_URL", "OPENAI_BASE_URL"),
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
    cannot=CANNOT,
    trial_model="llama",
    hosted=True,
    needs=("base_url", "model"),
    key_optional=True,
)
