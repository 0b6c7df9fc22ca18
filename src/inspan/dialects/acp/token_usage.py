"""Tokens as agents tell them in this protocol: in the answer to a prompt, or beside the last chunk of each call."""

from collections.abc import Mapping
from typing import Any

import msgspec

from inspan.protocol.known_types import know_type
from inspan.protocol.usage import Usage

from .settings import as_object


class _Tokens(msgspec.Struct, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    thought_tokens: int | None = None


class _Quota(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0


def usage_from_result(result: Mapping[str, Any]) -> Usage | None:
    """What the answer to a prompt says of tokens: in its own field, else where the first of these agents put them."""
    if usage := to_usage(result.get("usage")):
        return usage
    quota = as_object(as_object(result.get("_meta")).get("quota")).get("token_count")
    try:
        found = msgspec.convert(quota, know_type(_Quota | None))
    except msgspec.ValidationError:
        return None
    return Usage(input=found.input_tokens, output=found.output_tokens) if found else None


def to_usage(value: object) -> Usage | None:
    """Tokens in our sense; whether the input has the cached ones in it is told by the total."""
    try:
        found = msgspec.convert(value, know_type(_Tokens | None))
    except msgspec.ValidationError:
        return None
    if found is None:
        return None
    read, write, thought = found.cached_read_tokens or 0, found.cached_write_tokens or 0, found.thought_tokens or 0
    cached = read + write
    total = found.input_tokens + found.output_tokens if found.total_tokens is None else found.total_tokens
    apart = total - found.input_tokens - found.output_tokens
    output = found.output_tokens + (thought if thought and apart in (thought, thought + cached) else 0)
    included = cached and apart not in (cached, cached + thought)
    return Usage(
        input=max(0, found.input_tokens - cached) if included else found.input_tokens,
        output=output,
        cache_read=read,
        cache_write=write,
        reasoning=thought,
    )
