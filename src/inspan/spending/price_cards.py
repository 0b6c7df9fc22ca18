"""Reads genai-prices, run as a script in a process of its own: loading that list takes 150 ms and 40 MB.

On stdin: where packages are found, the moment, and pairs of a model and its provider. On stdout: one card of prices for
each pair, or nothing where the list has none, and what is known of the list's age.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, Provider

_PRICES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "reasoning": "output_reasoning_mtok",
    "searches": "web_searches_kcount",
    "requests": "requests_kcount",
}
_MODEL_HINT = re.compile(r"\[[^\]]*\]$")
_MODEL_PREFIX = re.compile(r"^(?:.*/)?models/")
# As in `us.anthropic.some-model-v1:0`.
_BEDROCK = re.compile(r"^(?:arn:aws[\w-]*:bedrock:.*/)?(?P<name>(?:[a-z]+\.)?[a-z0-9]+\.[a-z][\w.-]*(?::\d+\w*)?)$")
_FREE = ":free"
_ZERO_PRICE = {"base": "0"}


def main() -> None:
    given = json.load(sys.stdin)
    sys.path[:] = given["path"]
    from genai_prices.data_snapshot import get_snapshot  # Start-up time: 20 MB of prices.

    snapshot, now = get_snapshot(), datetime.fromtimestamp(given["now"], UTC)
    found = [find_card(snapshot, model, provider, now=now) for model, provider in given["asks"]]
    json.dump({"table": describe_table(snapshot, now=now), "cards": found}, sys.stdout)


def find_card(snapshot: "DataSnapshot", model: str, provider: str | None, *, now: datetime) -> dict[str, Any] | None:
    """The card of a model as somebody named it; None where the list has no such model."""
    found = find_model(snapshot, model, provider)
    return build_card(*found, now=now) if found else None


def build_card(owner: "Provider", info: "ModelInfo", *, now: datetime) -> dict[str, Any]:
    """The card of an entry of the list, as its prices are now."""
    stated = info.get_prices(now).__dict__
    prices = {ours: _format_price(stated[theirs]) for ours, theirs in _PRICES.items() if stated.get(theirs) is not None}
    if not prices and info.id.endswith(_FREE):
        prices = {"input": _ZERO_PRICE, "output": _ZERO_PRICE}
    named = {"provider": owner.id, "model": info.id, "context": info.context_window}
    return {**named, "until": _earliest(_list_changes_ahead(info, now)), **prices}


def find_model(snapshot: "DataSnapshot", model: str, provider: str | None) -> "tuple[Provider, ModelInfo] | None":
    """The list's own entry. A provider, by name or address, comes first; one that the list does not know has none."""
    plain = _MODEL_PREFIX.sub("", _MODEL_HINT.sub("", model.strip().lower()))
    for place, name in _list_candidates(snapshot, plain, provider or ""):
        try:
            return snapshot.find_provider_model(name, None, place, None)
        except LookupError:
            continue
    return None


def describe_table(snapshot: "DataSnapshot", *, now: datetime) -> dict[str, Any]:
    """How new the list is, as far as it says: the newest day on which one of its prices began."""
    days = {day for provider in snapshot.providers for info in provider.models for day in _list_start_days(info)}
    begun = {day for day in days if _parse_day(day) <= now}
    return {"newest": max(begun, default=""), "until": _earliest(map(_parse_day, days - begun))}


def _list_candidates(snapshot: "DataSnapshot", name: str, provider: str) -> Iterator[tuple[str | None, str]]:
    """Where to look, and for which name: its provider, one that its name begins with, any that claims the name."""
    from genai_prices.data_snapshot import find_provider_by_id  # Start-up time: 20 MB of prices.

    given = _find_provider_at(snapshot, provider) if "://" in provider else provider
    if given and not find_provider_by_id(snapshot.providers, given):
        return
    if given:
        yield given, name
    prefix, slash, rest = name.partition("/")
    if slash and find_provider_by_id(snapshot.providers, prefix):
        yield prefix, rest
        yield from _list_candidates(snapshot, rest, "")
    if bedrock := _BEDROCK.match(name):
        yield "aws", bedrock["name"]
    yield None, name


def _find_provider_at(snapshot: "DataSnapshot", url: str) -> str:
    """The provider at an address; an empty name for one that could be anybody's."""
    try:
        return snapshot.find_provider(None, None, url).id
    except LookupError:
        return ""


def _format_price(stated: Any) -> dict[str, Any]:
    if isinstance(stated, Decimal):
        return {"base": str(stated)}
    return {"base": str(stated.base), "tiers": [[tier.start, str(tier.price)] for tier in stated.tiers]}


def _list_start_days(info: "ModelInfo") -> Iterator[str]:
    """The days on which prices of a model begin."""
    for conditional in info.prices if isinstance(info.prices, list) else []:
        day = getattr(conditional.constraint, "start_date", None)
        if day:
            yield day.isoformat()


def _list_changes_ahead(info: "ModelInfo", now: datetime) -> Iterator[datetime]:
    """The moments ahead at which a price of a model may become another one."""
    yield from (_parse_day(day) for day in _list_start_days(info) if _parse_day(day) > now)
    for conditional in info.prices if isinstance(info.prices, list) else []:
        hours = (getattr(conditional.constraint, name, None) for name in ("start_time", "end_time"))
        yield from (_next_occurrence(hour, now) for hour in hours if hour is not None)


def _parse_day(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def _next_occurrence(hour: time, now: datetime) -> datetime:
    """When this time of day comes next; one without a zone is of UTC."""
    today = datetime.combine(now.date(), hour if hour.tzinfo else hour.replace(tzinfo=UTC)).astimezone(UTC)
    return next(each for each in (today + timedelta(days=days) for days in (-1, 0, 1, 2)) if each > now)


def _earliest(moments: Iterable[datetime]) -> float | None:
    first = min(moments, default=None)
    return first.timestamp() if first else None


if __name__ == "__main__":
    main()
