"""The providers that Qwen Code speaks to, and how it calls each of them."""

from collections.abc import Mapping

import msgspec

from inspan.contracts.driver import Provider


class WireProtocol(msgspec.Struct, frozen=True, kw_only=True):
    """Its own name for a wire, and the variables in which it looks for key and address."""

    name: str
    key: str
    address: str = ""


_OPENAI = WireProtocol(name="openai", key="OPENAI_API_KEY", address="OPENAI_BASE_URL")
PROTOCOLS: Mapping[str, WireProtocol] = {
    "openai": _OPENAI,
    "dashscope": _OPENAI,
    "openai-responses": WireProtocol(name="openai-responses", key="OPENAI_API_KEY", address="OPENAI_BASE_URL"),
    "anthropic": WireProtocol(name="anthropic", key="ANTHROPIC_API_KEY", address="ANTHROPIC_BASE_URL"),
    "google": WireProtocol(name="gemini", key="GEMINI_API_KEY"),
}
PROVIDERS = (
    Provider(
        name="openai",
        wire="chat",
        vendor="openai",
        base_url="https://api.openai.com/v1",
        credentials=("OPENAI_API_KEY",),
        base_url_variables=("OPENAI_BASE_URL",),
    ),
    Provider(
        name="dashscope",
        wire="chat",
        vendor="dashscope",
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
        credentials=("DASHSCOPE_API_KEY",),
    ),
    Provider(
        name="openai-responses",
        wire="responses",
        vendor="openai",
        base_url="https://api.openai.com/v1",
        credentials=("OPENAI_API_KEY",),
        base_url_variables=("OPENAI_BASE_URL",),
    ),
    Provider(
        name="anthropic",
        wire="messages",
        vendor="anthropic",
        base_url="https://api.anthropic.com",
        credentials=("ANTHROPIC_API_KEY",),
        base_url_variables=("ANTHROPIC_BASE_URL",),
    ),
    Provider(
        name="google",
        wire="generate",
        vendor="google",
        base_url="https://generativelanguage.googleapis.com",
        credentials=("GEMINI_API_KEY",),
    ),
)
