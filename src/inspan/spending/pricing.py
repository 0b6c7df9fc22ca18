"""The prices of models: a user's own, else those of genai-prices, remembered below the cache folder by its version."""

import os
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from inspan.folds.prices import PriceCard, build_custom_card, compute_cost
from inspan.protocol.usage import Usage
from inspan.stores.cache_file import load_cached, save_cached

from .price_list import ListAge, PriceAnswer, PriceQuery, find_list_version, query_list, query_list_async

if TYPE_CHECKING:
    from inspan.system.loop_lock import LoopLock

_AGE = "age.json"
_THIS_MACHINE = re.compile(r"https?://(127\.|localhost\b|\[::1\])", re.IGNORECASE)


class PriceTable(msgspec.Struct, frozen=True, kw_only=True):
    """The list that prices come from. It has no date of its own: `newest` is the day its newest price began."""

    name: str
    version: str
    newest: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}, newest price of {self.newest or 'an unknown day'}"


class _CachedCard(msgspec.Struct, frozen=True, kw_only=True):
    """One answer as a file keeps it; without a card the list has no such model."""

    ask: PriceQuery
    card: PriceCard | None = None


class Pricing:
    """Gives the card of a model; None is an unknown price. Nothing is asked twice, not even by another process.

    `cache` is inspan's cache folder and `own` holds prices of the user's, by the model's name, in dollars for a million
    tokens. Threads that ask at the same time may both start a process, and are told the same.
    """

    def __init__(
        self,
        cache: str,
        own: Mapping[str, Mapping[str, float | None]] | None = None,
        *,
        version: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._own = {name.lower(): build_custom_card(name, prices) for name, prices in (own or {}).items()}
        self._version = find_list_version() if version is None else version
        self._folder = os.path.join(cache, "prices", self._version)
        self._clock = clock
        self._cards: dict[PriceQuery, PriceCard | None] = {}
        self._age: ListAge | None = None
        self._query_lock: LoopLock | None = None

    def fetch_card(self, model: str, provider: str | None = None, *, answered_by: str = "") -> PriceCard | None:
        """The card of a model as an agent names it, or of `answered_by`, where the answer names one.

        `provider` is a name or an address in the list; without one, the model's name says whose it is. May take as
        long as starting a process takes, the first time that a model is asked for.
        """
        for ask in self._list_missing(model, provider, answered_by):
            self._store_answer([ask], query_list([ask], now=self._clock()))
        return self._get_card(model, provider, answered_by)

    async def fetch_card_async(
        self, model: str, provider: str | None = None, *, answered_by: str = ""
    ) -> PriceCard | None:
        """The same for a loop that goes on; askers at the same time share one answer."""
        if not any(self._list_missing(model, provider, answered_by)):
            return self._get_card(model, provider, answered_by)
        from inspan.system.loop_lock import LoopLock  # Start-up time: the command line asks without a loop.

        self._query_lock = self._query_lock or LoopLock()
        async with self._query_lock:
            for ask in self._list_missing(model, provider, answered_by):
                self._store_answer([ask], await query_list_async([ask], now=self._clock()))
        return self._get_card(model, provider, answered_by)

    def get_cached_card(self, model: str, provider: str | None = None, *, answered_by: str = "") -> PriceCard | None:
        """The same as far as it can be told at once: nothing is started."""
        for _ in self._list_missing(model, provider, answered_by):
            pass
        return self._get_card(model, provider, answered_by)

    def compute_cost(
        self, model: str, usage: Usage, extras: Mapping[str, int] | None = None, *, provider: str | None = None
    ) -> int | None:
        """What this much of a model costs in billionths of a dollar; None where a price is unknown."""
        card = self.fetch_card(model, provider)
        return compute_cost(card, usage, extras) if card else None

    def describe_table(self) -> PriceTable | None:
        """The list and its age; None where there is no list."""
        if not self._version:
            return None
        age = self._age if self._age and _is_valid(self._age, self._clock()) else self._read_age()
        if age is None:
            self._store_answer([], query_list([], now=self._clock()))
            age = self._age
        return PriceTable(name="genai-prices", version=self._version, newest=age.newest if age else "")

    def _get_card(self, model: str, provider: str | None, answered_by: str) -> PriceCard | None:
        """The first card among what is known of these names."""
        for name in filter(None, (answered_by, model)):
            card = self._find_own_card(name) or self._cards.get((name, _normalize_provider(provider)))
            if card:
                return card
        return None

    def _list_missing(self, model: str, provider: str | None, answered_by: str) -> Iterator[PriceQuery]:
        """What has to be asked for, one after the other, until one of the names has a card."""
        for name in filter(None, (answered_by, model)):
            ask = (name, _normalize_provider(provider))
            if self._find_own_card(name):
                return
            if not self._is_cached(ask) and self._version:
                yield ask
            if self._cards.get(ask):
                return

    def _find_own_card(self, name: str) -> PriceCard | None:
        plain = name.lower().partition("[")[0]
        spellings = (name.lower(), plain, plain.rpartition("/")[2])
        return next((self._own[each] for each in spellings if each in self._own), None)

    def _is_cached(self, ask: PriceQuery) -> bool:
        """Whether the answer is known, from here or from a file, and still holds."""
        if ask not in self._cards:
            kept = load_cached(self._cache_path(ask), _CachedCard)
            if kept is None or kept.ask != ask:
                return False
            self._cards[ask] = kept.card
        card = self._cards.get(ask)
        if card and not _is_valid(card, self._clock()):
            self._cards.pop(ask, None)
            return False
        return True

    def _store_answer(self, asks: list[PriceQuery], answer: PriceAnswer | None) -> None:
        """Keeps what came back. No answer is kept here alone: the next process may be luckier."""
        cards = answer.cards if answer else [None for _ in asks]
        self._cards.update(zip(asks, cards, strict=True))
        if answer is None:
            return
        self._age = answer.table
        save_cached(os.path.join(self._folder, _AGE), answer.table)
        for ask, card in zip(asks, cards, strict=True):
            save_cached(self._cache_path(ask), _CachedCard(ask=ask, card=card))

    def _read_age(self) -> ListAge | None:
        age = load_cached(os.path.join(self._folder, _AGE), ListAge)
        self._age = age if age and _is_valid(age, self._clock()) else None
        return self._age

    def _cache_path(self, ask: PriceQuery) -> str:
        """A file for each question, so that any number of processes may write without waiting for each other."""
        spelled = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in ask[0])[:80]
        return os.path.join(self._folder, f"{spelled}-{zlib.crc32(msgspec.json.encode(ask)):08x}.json")


def _normalize_provider(provider: str | None) -> str:
    """The provider as it is asked for; an address on this machine says nothing of whose model is behind it."""
    return "" if provider is None or _THIS_MACHINE.match(provider) else provider


def _is_valid(known: PriceCard | ListAge, now: float) -> bool:
    return known.until is None or now < known.until
