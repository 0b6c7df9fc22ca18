"""Any agent that speaks the Agent Client Protocol, by the command line that starts it: `acp:COMMAND`."""

import os.path
import shlex
from collections.abc import Mapping

from inspan.contracts.driver import (
    Access,
    Capabilities,
    Driver,
    Launch,
    LaunchContext,
    ProgramSpec,
    Provider,
    SessionSupport,
)
from inspan.dialects.acp.channel import build_acp_channel
from inspan.dialects.acp.profile import AcpAgent
from inspan.dialects.acp.session_setup import SessionSetup, default_setup
from inspan.errors import BadInput
from inspan.protocol.task import Task

_EXAMPLE = "-a 'acp:my-agent --acp'"
# The names by which most programs find a provider: a key, and an address (with what stands behind the gateway's own).
_ADDRESSES: dict[str, tuple[tuple[str, str], ...]] = {
    "anthropic": (("ANTHROPIC_BASE_URL", ""), ("ANTHROPIC_HOST", "")),
    "openai": (("OPENAI_BASE_URL", "/v1"), ("OPENAI_API_BASE", "/v1"), ("OPENAI_HOST", "")),
    "google": (("GOOGLE_GEMINI_BASE_URL", ""), ("GEMINI_BASE_URL", ""), ("GOOGLE_HOST", "")),
}
_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}


def _address_variables(provider: str) -> tuple[str, ...]:
    return tuple(name for name, _ in _ADDRESSES[provider])


PROVIDERS = (
    Provider(
        name="anthropic",
        wire="messages",
        vendor="anthropic",
        base_url="https://api.anthropic.com",
        credentials=_KEYS["anthropic"],
        base_url_variables=_address_variables("anthropic"),
    ),
    Provider(
        name="openai",
        wire="chat",
        vendor="openai",
        base_url="https://api.openai.com/v1",
        credentials=_KEYS["openai"],
        base_url_variables=_address_variables("openai"),
    ),
    Provider(
        name="google",
        wire="generate",
        vendor="google",
        base_url="https://generativelanguage.googleapis.com",
        credentials=_KEYS["google"],
        base_url_variables=_address_variables("google"),
    ),
)
_SESSION = SessionSupport(messages=True, interrupt=True, ask=True)
CAPABILITIES = Capabilities(
    review="yes",
    complete="asked",
    resume="yes",
    fork="yes",
    extra_dirs="yes",
    mcp=("stdio", "http"),
    attachments=("image/png", "image/jpeg", "image/gif", "image/webp"),
    grants=("mcp__",),
    reports_denials="yes",
    notes={
        "review": "inspan's sandbox keeps its working folder as it is; what the agent asks to edit is refused as well.",
        "complete": "It is told to use no tools, and whatever it asks permission for is refused.",
        "resume": "Where the agent offers it; one that does not ends the run and says so.",
        "fork": "Where the agent offers it; one that does not ends the run and says so.",
        "reports_usage": "As far as the agent reports it; the gateway counts in any case.",
        "follows_gateway": "Where it reads the usual variables for its provider's address.",
    },
)


def driver_from_command(command: str) -> Driver:
    """The driver of the agent that this command line starts; raises `BadInput` for what is none."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadInput(
            "agent", f"acp:{command}", f"no command line: {error}.", next_step=f"As in {_EXAMPLE}."
        ) from error
    if not words:
        raise BadInput("agent", f"acp:{command}", "there is no command.", next_step=f"Name one, as in {_EXAMPLE}.")
    if "/" in words[0] and not os.path.isabs(words[0]):
        step = "Give the program's name, to be found on PATH, or its whole path."
        raise BadInput("agent", f"acp:{command}", f"{words[0]} is a path within some folder.", next_step=step)
    return build_member(f"acp:{command}", os.path.basename(words[0]), words)


def build_member(name: str, title: str, words: list[str]) -> Driver:
    """The driver of an agent of this family: its name, and the words that start it."""

    def launch(task: Task, context: LaunchContext) -> Launch:
        return Launch(argv=(context.program, *words[1:], *task.options), env=_build_environment(task, context))

    acp_agent = AcpAgent(launch=launch, build_setup=_build_setup)
    first = PROVIDERS[0]
    return Driver(
        name=name,
        title=title,
        program=ProgramSpec(
            command=words[0],
        ),
        provider=Provider(
            wire=first.wire,
            vendor=first.vendor,
            base_url=first.base_url,
            credentials=first.credentials,
            base_url_variables=first.base_url_variables,
        ),
        providers=PROVIDERS,
        channels=(build_acp_channel(lambda: acp_agent, CAPABILITIES, session=_SESSION),),
        access=Access(
            login_hint="as the agent itself says",
        ),
        capabilities=CAPABILITIES,
    )


def _build_setup(task: Task, context: LaunchContext) -> SessionSetup:
    _, _, model = (
        task.model.rpartition("/")
        if context.provider and task.model.startswith(f"{context.provider}/")
        else ("", "", task.model)
    )
    return default_setup(task, context, model=model)


def _build_environment(task: Task, context: LaunchContext) -> Mapping[str, str]:
    """A HOME of its own in the profile `clean`, and the gateway in place of every provider that it may ask."""
    env: dict[str, str] = {}
    if context.config:
        env |= {"HOME": context.config, "XDG_CONFIG_HOME": f"{context.config}/.config"}
        env |= {"XDG_DATA_HOME": f"{context.config}/.local/share", "XDG_STATE_HOME": f"{context.config}/.local/state"}
        env |= {"XDG_CACHE_HOME": f"{context.config}/.cache"}
    if context.endpoint is None:
        return env
    # A played model answers whoever asks; with a real key, only its own provider is asked.
    played = task.model_from.startswith(("script:", "replay:"))
    for way in _ADDRESSES if played else (context.provider,):
        env |= {name: f"{context.endpoint.url}{path}" for name, path in _ADDRESSES[way]}
        env[_KEYS[way][0]] = context.endpoint.token
    return env


DRIVER = Driver(
    name="acp",
    title="Any agent of the Agent Client Protocol",
    program=ProgramSpec(
        command="",
    ),
    provider=Provider(
        wire="messages",
    ),
    channels=driver_from_command("agent").channels,
    providers=PROVIDERS,
    capabilities=CAPABILITIES,
    access=Access(
        login_hint="as the agent itself says",
    ),
    family=True,
)
