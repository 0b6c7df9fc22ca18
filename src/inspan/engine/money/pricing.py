"""The prices of models: a user's own, else those of genai-prices, remembered below the cache folder by its version."""

import os
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from inspan.folds.prices import Card, cost, own_card
from inspan.protocol.usage import Usage
from inspan.protocol.wire import UNREADABLE

from .price_list import Age, Answer, Ask, ask_list, ask_list_meanwhile, list_version

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
_AGE = "age.json"
_THIS_MACHINE = re.compile(r"https?://(127\.|localhost\b|\[::1\])", re.IGNORECASE)


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The list that prices come from. It has no date of its own: `newest` is the day its newest price began."""

    name: str
    version: str
    newest: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}, newest price of {self.newest or 'an unknown day'}"


class _Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """One answer as a file keeps it; without a card the list has no such model."""

    ask: Ask
    card: Card | None = None


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
        self._own = {name.lower(): own_card(name, prices) for name, prices in (own or {}).items()}
        self._version = list_version() if version is None else version
        self._folder = os.path.join(cache, "prices", self._version)
        self._clock = clock
        self._cards: dict[Ask, Card | None] = {}
        self._age: Age | None = None
        self._asking: asyncio.Lock | None = None

    def card(self, model: str, provider: str | None = None, *, answered: str = "") -> Card | None:
        """The card of a model as an agent names it, or of the one that `answered`, where the answer names it.

        `provider` is a name or an address in the list; without one, the model's name says whose it is. May take as
        long as starting a process takes, the first time that a model is asked for.
        """
        for ask in self._unknown(model, provider, answered):
            self._learn([ask], ask_list([ask], now=self._clock()))
        return self._known(model, provider, answered)

    async def find(self, model: str, provider: str | None = None, *, answered: str = "") -> Card | None:
        """The same for a loop that goes on; askers at the same time share one answer."""
        if not any(self._unknown(model, provider, answered)):
            return self._known(model, provider, answered)
        import asyncio  # Start-up time: the command line asks without a loop.

        self._asking = self._asking or asyncio.Lock()
        async with self._asking:
            for ask in self._unknown(model, provider, answered):
                self._learn([ask], await ask_list_meanwhile([ask], now=self._clock()))
        return self._known(model, provider, answered)

    def known(self, model: str, provider: str | None = None, *, answered: str = "") -> Card | None:
        """The same as far as it can be told at once: nothing is started."""
        for _ in self._unknown(model, provider, answered):
            pass
        return self._known(model, provider, answered)

    def cost(
        self, model: str, usage: Usage, extras: Mapping[str, int] | None = None, *, provider: str | None = None
    ) -> int | None:
        """What this much of a model costs in billionths of a dollar; None where a price is unknown."""
        card = self.card(model, provider)
        return cost(card, usage, extras) if card else None

    def table(self) -> Table | None:
        """The list and its age; None where there is no list."""
        if not self._version:
            return None
        age = self._age if self._age and _holds(self._age, self._clock()) else self._read_age()
        if age is None:
            self._learn([], ask_list([], now=self._clock()))
            age = self._age
        return Table(name="genai-prices", version=self._version, newest=age.newest if age else "")

    def _known(self, model: str, provider: str | None, answered: str) -> Card | None:
        """The first card among what is known of these names."""
        for name in filter(None, (answered, model)):
            card = self._own_card(name) or self._cards.get((name, _whose(provider)))
            if card:
                return card
        return None

    def _unknown(self, model: str, provider: str | None, answered: str) -> Iterator[Ask]:
        """What has to be asked for, one after the other, until one of the names has a card."""
        for name in filter(None, (answered, model)):
            ask = (name, _whose(provider))
            if self._own_card(name):
                return
            if not self._remembers(ask) and self._version:
                yield ask
            if self._cards.get(ask):
                return

    def _own_card(self, name: str) -> Card | None:
        plain = name.lower().partition("[")[0]
        spellings = (name.lower(), plain, plain.rpartition("/")[2])
        return next((self._own[each] for each in spellings if each in self._own), None)

    def _remembers(self, ask: Ask) -> bool:
        """Whether the answer is known, from here or from a file, and still holds."""
        if ask not in self._cards:
            kept = _read(self._file(ask), _Remembered)
            if kept is None or kept.ask != ask:
                return False
            self._cards[ask] = kept.card
        card = self._cards.get(ask)
        if card and not _holds(card, self._clock()):
            self._cards.pop(ask, None)
            return False
        return True

    def _learn(self, asks: list[Ask], answer: Answer | None) -> None:
        """Keeps what came back. No answer is kept here alone: the next process may be luckier."""
        cards = answer.cards if answer else [None for _ in asks]
        self._cards.update(zip(asks, cards, strict=True))
        if answer is None:
            return
        self._age = answer.table
        _write(os.path.join(self._folder, _AGE), answer.table)
        for ask, card in zip(asks, cards, strict=True):
            _write(self._file(ask), _Remembered(ask=ask, card=card))

    def _read_age(self) -> Age | None:
        age = _read(os.path.join(self._folder, _AGE), Age)
        self._age = age if age and _holds(age, self._clock()) else None
        return self._age

    def _file(self, ask: Ask) -> str:
        """A file for each question, so that any number of processes may write without waiting for each other."""
        spelled = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in ask[0])[:80]
        return os.path.join(self._folder, f"{spelled}-{zlib.crc32(msgspec.json.encode(ask)):08x}.json")


def _read(path: str, kind: type[T]) -> T | None:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=kind)
    except (OSError, *UNREADABLE):
        return None


def _write(path: str, value: msgspec.Struct) -> None:
    draft = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(draft, "wb") as file:
            file.write(msgspec.json.encode(value))
        os.rename(draft, path)
    except OSError:
        pass  # A cache that cannot be written costs one question next time, nothing else.


def _whose(provider: str | None) -> str:
    """The provider as it is asked for; an address on this machine says nothing of whose model is behind it."""
    return "" if provider is None or _THIS_MACHINE.match(provider) else provider


def _holds(known: Card | Age, now: float) -> bool:
    return known.until is None or now < known.until
