"""The providers that Goose speaks to, and how each is pointed at a gateway."""

import re
from collections.abc import Callable, Mapping

import msgspec

from inspan.contracts.driver import Provider

_RESPONSES_MODELS = re.compile(r"gpt-5|o\d")


class ProviderSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The model that is asked when none is named, and the variables that lead to an address (address, model)."""

    default_model: str
    to_environment: Callable[[str, str], Mapping[str, str]]


def _openai_environment(url: str, model: str) -> dict[str, str]:
    """The address has its version in it; which wire a model is asked on is Goose's own choice."""
    path = "responses" if _RESPONSES_MODELS.match(model) else "chat/completions"
    return {"OPENAI_HOST": url, "OPENAI_BASE_PATH": path}


PROVIDER_SETUPS: Mapping[str, ProviderSetup] = {
    "anthropic": ProviderSetup(default_model="claude-sonnet-5", to_environment=lambda url, _: {"ANTHROPIC_HOST": url}),
    "openai": ProviderSetup(default_model="gpt-5.5", to_environment=_openai_environment),
    "google": ProviderSetup(default_model="gemini-2.5-pro", to_environment=lambda url, _: {"GOOGLE_HOST": url}),
    "openrouter": ProviderSetup(
        default_model="anthropic/claude-sonnet-4.6", to_environment=lambda url, _: {"OPENROUTER_HOST": url}
    ),
    "xai": ProviderSetup(default_model="grok-code-fast-1", to_environment=lambda url, _: {"XAI_HOST": url}),
}
PROVIDERS = (
    Provider(
        name="anthropic",
        wire="messages",
        vendor="anthropic",
        base_url="https://api.anthropic.com",
        credentials=("ANTHROPIC_API_KEY",),
        base_url_variables=("ANTHROPIC_HOST",),
    ),
    Provider(
        name="openai",
        wire="responses",
        vendor="openai",
        base_url="https://api.openai.com/v1",
        credentials=("OPENAI_API_KEY",),
        base_url_variables=("OPENAI_BASE_URL",),
    ),
    Provider(
        name="google",
        wire="generate",
        vendor="google",
        base_url="https://generativelanguage.googleapis.com",
        credentials=("GOOGLE_API_KEY",),
        base_url_variables=("GOOGLE_HOST",),
    ),
    Provider(
        name="openrouter",
        wire="chat",
        vendor="openrouter",
        base_url="https://openrouter.ai",
        credentials=("OPENROUTER_API_KEY",),
        base_url_variables=("OPENROUTER_HOST",),
    ),
    Provider(
        name="xai",
        wire="chat",
        vendor="x-ai",
        base_url="https://api.x.ai/v1",
        credentials=("XAI_API_KEY",),
        base_url_variables=("XAI_HOST",),
    ),
)
