"""The providers that Goose speaks to, and how each is pointed at a gateway."""

import re
from collections.abc import Callable, Mapping

import msgspec

from inspan.contracts.driver import Way

_THINKERS = re.compile(r"gpt-5|o\d")


class Road(msgspec.Struct, frozen=True, kw_only=True):
    """The model that is asked when none is named, and the variables that lead to an address (address, model)."""

    model: str
    to: Callable[[str, str], Mapping[str, str]]


def _openai(url: str, model: str) -> dict[str, str]:
    """The address has its version in it; which wire a model is asked on is Goose's own choice."""
    path = "responses" if _THINKERS.match(model) else "chat/completions"
    return {"OPENAI_HOST": url, "OPENAI_BASE_PATH": path}


ROADS: Mapping[str, Road] = {
    "anthropic": Road(model="claude-sonnet-5", to=lambda url, _: {"ANTHROPIC_HOST": url}),
    "openai": Road(model="gpt-5.5", to=_openai),
    "google": Road(model="gemini-2.5-pro", to=lambda url, _: {"GOOGLE_HOST": url}),
    "openrouter": Road(model="anthropic/claude-sonnet-4.6", to=lambda url, _: {"OPENROUTER_HOST": url}),
    "xai": Road(model="grok-code-fast-1", to=lambda url, _: {"XAI_HOST": url}),
}
WAYS = (
    Way(
        name="anthropic",
        wire="messages",
        provider="anthropic",
        base_url="https://api.anthropic.com",
        credentials=("ANTHROPIC_API_KEY",),
        base_url_variables=("ANTHROPIC_HOST",),
    ),
    Way(
        name="openai",
        wire="responses",
        provider="openai",
        base_url="https://api.openai.com/v1",
        credentials=("OPENAI_API_KEY",),
        base_url_variables=("OPENAI_BASE_URL",),
    ),
    Way(
        name="google",
        wire="generate",
        provider="google",
        base_url="https://generativelanguage.googleapis.com",
        credentials=("GOOGLE_API_KEY",),
        base_url_variables=("GOOGLE_HOST",),
    ),
    Way(
        name="openrouter",
        wire="chat",
        provider="openrouter",
        base_url="https://openrouter.ai",
        credentials=("OPENROUTER_API_KEY",),
        base_url_variables=("OPENROUTER_HOST",),
    ),
    Way(
        name="xai",
        wire="chat",
        provider="x-ai",
        base_url="https://api.x.ai/v1",
        credentials=("XAI_API_KEY",),
        base_url_variables=("XAI_HOST",),
    ),
)
