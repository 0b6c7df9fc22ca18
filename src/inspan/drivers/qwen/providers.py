"""The providers that Qwen Code speaks to, and how it calls each of them."""

from collections.abc import Mapping

import msgspec

from inspan.contracts.driver import Way


class Protocol(msgspec.Struct, frozen=True, kw_only=True):
    """Its own name for a wire, and the variables in which it looks for key and address."""

    name: str
    key: str
    address: str = ""


_OPENAI = Protocol(name="openai", key="OPENAI_API_KEY", address="OPENAI_BASE_URL")
PROTOCOLS: Mapping[str, Protocol] = {
    "openai": _OPENAI,
    "dashscope": _OPENAI,
    "openai-responses": Protocol(name="openai-responses", key="OPENAI_API_KEY", address="OPENAI_BASE_URL"),
    "anthropic": Protocol(name="anthropic", key="ANTHROPIC_API_KEY", address="ANTHROPIC_BASE_URL"),
    "google": Protocol(name="gemini", key="GEMINI_API_KEY"),
}
WAYS = (
    Way(
        name="openai",
        wire="chat",
        provider="openai",
        base_url="https://api.openai.com/v1",
        credentials=("OPENAI_API_KEY",),
        base_url_variables=("OPENAI_BASE_URL",),
    ),
    Way(
        name="dashscope",
        wire="chat",
        provider="dashscope",
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
        credentials=("DASHSCOPE_API_KEY",),
    ),
    Way(
        name="openai-responses",
        wire="responses",
        provider="openai",
        base_url="https://api.openai.com/v1",
        credentials=("OPENAI_API_KEY",),
        base_url_variables=("OPENAI_BASE_URL",),
    ),
    Way(
        name="anthropic",
        wire="messages",
        provider="anthropic",
        base_url="https://api.anthropic.com",
        credentials=("ANTHROPIC_API_KEY",),
        base_url_variables=("ANTHROPIC_BASE_URL",),
    ),
    Way(
        name="google",
        wire="generate",
        provider="google",
        base_url="https://generativelanguage.googleapis.com",
        credentials=("GEMINI_API_KEY",),
    ),
)
