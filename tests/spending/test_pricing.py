"""Cards of prices: found by the names that agents use, asked for once, and unknown where the list knows nothing."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from inspan.folds.prices import Price, PriceCard, compute_cost
from inspan.protocol.usage import Usage
from inspan.spending import price_list
from inspan.spending.price_list import find_list_version, query_list, query_list_async
from inspan.spending.pricing import PriceTable, Pricing

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()
EVENING = datetime(2026, 11, 15, 16, 30, tzinfo=UTC).timestamp()
SONNET = ("anthropic", "claude-sonnet-4-5")
CONVERSE = ("aws", "regional.anthropic.claude-sonnet-4-5-20250929-v1:0")


def pricing(cache: Path, **more: object) -> Pricing:
    return Pricing(str(cache), clock=lambda: NOON, **more)  # pyright: ignore[reportArgumentType]  as each test says


@pytest.fixture
def replace_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program in the place of the one that reads the list."""

    def replace(body: str) -> None:
        program = tmp_path / "reader"
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))

    return replace


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for tests that only ask."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize(
    ("model", "provider", "expected"),
    [
        ("claude-sonnet-4-5", "anthropic", SONNET),
        ("claude-sonnet-4-5-20250929", "anthropic", SONNET),
        ("claude-sonnet-4-5-20250929", None, SONNET),
        ("Claude-Sonnet-4-5", None, SONNET),
        ("claude-sonnet-4-5[1m]", "anthropic", SONNET),
        ("anthropic/claude-sonnet-4-5", None, SONNET),
        ("anthropic/claude-sonnet-4-5", "anthropic", SONNET),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", None, CONVERSE),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic", CONVERSE),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws", CONVERSE),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0", None, CONVERSE),
        ("claude-sonnet-4@20250514", "google", ("google", "claude-4-sonnet")),
        ("gpt-5-codex", "openai", ("openai", "gpt-5")),
        ("gpt-5.2-20251211", None, ("openai", "gpt-5.2")),
        ("openai/gpt-5", None, ("openai", "gpt-5")),
        ("openai/gpt-5", "openrouter", ("openrouter", "openai/gpt-5")),
        ("openrouter/openai/gpt-5", None, ("openrouter", "openai/gpt-5")),
        ("models/gemini-2.5-pro", "google", ("google", "gemini-2.5-pro")),
        ("sonar-pro", "perplexity", ("perplexity", "sonar-pro")),
        ("gpt-5", "https://api.openai.com/v1", ("openai", "gpt-5")),
        ("gpt-5", "https://models.example/v1", ("openai", "gpt-5")),
        ("claude-sonnet-4-5", "openai", SONNET),
        ("sonar-pro", None, None),
        ("gpt-5", "a-box-of-mine", None),
        ("scripted", None, None),
        ("gpt-99", "openai", None),
        ("my/own/model", None, None),
        ("\x00\n", None, None),
        ("", None, None),
    ],
)
def test_a_model_is_found_by_the_names_that_agents_use(
    shared_cache: Path, model: str, provider: str | None, expected: tuple[str, str] | None
) -> None:
    card = pricing(shared_cache).fetch_card(model, provider)
    assert (card and (card.provider, card.model)) == expected


def test_a_card_has_the_prices_of_the_list(shared_cache: Path) -> None:
    assert pricing(shared_cache).fetch_card("claude-sonnet-4-5", "anthropic") == PriceCard(
        provider="anthropic",
        model="claude-sonnet-4-5",
        context=200_000,
        input=Price(base=Decimal(3), tiers=((200_000, Decimal(6)),)),
        output=Price(base=Decimal(15), tiers=((200_000, Decimal("22.5")),)),
        cache_read=Price(base=Decimal("0.3"), tiers=((200_000, Decimal("0.6")),)),
        cache_write=Price(base=Decimal("3.75"), tiers=((200_000, Decimal("7.5")),)),
        cache_write_1h=Price(base=Decimal(6), tiers=((200_000, Decimal(12)),)),
        searches=Price(base=Decimal(10)),
    )


def test_the_model_that_answered_is_asked_for_first(shared_cache: Path) -> None:
    found = pricing(shared_cache).fetch_card("latest", "openai", answered_by="gpt-5")
    assert found and found.model == "gpt-5"
    other = pricing(shared_cache).fetch_card("gpt-5", "openai", answered_by="nobody-knows-me")
    assert other and other.model == "gpt-5"


@pytest.mark.parametrize("model", ["gpt-5", "nobody-knows-me"])
def test_what_was_asked_once_is_asked_of_nobody_again(
    tmp_path: Path, replace_reader: Callable[[str], None], model: str
) -> None:
    first = pricing(tmp_path).fetch_card(model)
    replace_reader(f"touch {tmp_path}/asked")
    assert pricing(tmp_path).fetch_card(model) == first
    assert asyncio.run(pricing(tmp_path).fetch_card_async(model)) == first
    assert not (tmp_path / "asked").exists()


def test_what_is_known_at_once_is_told_without_starting_anything(
    tmp_path: Path, replace_reader: Callable[[str], None]
) -> None:
    first = pricing(tmp_path).fetch_card("gpt-5", answered_by="nobody-knows-me")
    replace_reader(f"touch {tmp_path}/asked")
    assert pricing(tmp_path).get_cached_card("gpt-5", answered_by="nobody-knows-me") == first
    assert pricing(tmp_path).get_cached_card("gpt-5-mini") is None
    assert pricing(tmp_path, own=OWN).get_cached_card("my-model") is not None
    assert not (tmp_path / "asked").exists()


def test_a_cost_is_that_of_the_models_card(shared_cache: Path) -> None:
    asked = pricing(shared_cache)
    assert asked.compute_cost("gpt-5", Usage(input=1000, output=10), provider="openai") == 1_250_000 + 100_000
    assert asked.compute_cost("claude-sonnet-4-5", Usage(input=1), {"searches": 1}) == 3_000 + 10_000_000
    assert asked.compute_cost("nobody-knows-me", Usage(input=1)) is None


def test_threads_that_ask_at_the_same_time_are_told_the_same(tmp_path: Path) -> None:
    asked = pricing(tmp_path)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(asked.fetch_card, ["gpt-5", "nobody-knows-me"] * 4))
    assert found == [asked.fetch_card("gpt-5"), None] * 4


def test_another_version_of_the_list_is_asked_anew(tmp_path: Path) -> None:
    found = pricing(tmp_path, version="1").fetch_card("gpt-5")
    assert found is not None
    assert pricing(tmp_path, version="2").fetch_card("gpt-5") == found
    assert sorted(os.listdir(tmp_path / "prices")) == ["1", "2"]


def test_a_price_that_ends_is_asked_for_again(tmp_path: Path) -> None:
    """At night this model is cheaper; the card says until when its prices hold."""
    now = [NOON]
    asked = Pricing(str(tmp_path), clock=lambda: now[0])
    day = asked.fetch_card("deepseek-chat", "deepseek")
    assert day and day.until == EVENING
    now[0] = EVENING - 1
    assert asked.fetch_card("deepseek-chat", "deepseek") == day
    now[0] = EVENING
    night = asked.fetch_card("deepseek-chat", "deepseek")
    assert night and night.until == datetime(2026, 11, 16, 0, 30, tzinfo=UTC).timestamp()
    usage = Usage(input=1_000_000, output=1_000_000)
    assert (compute_cost(night, usage) or 0) < (compute_cost(day, usage) or 0)
    assert Pricing(str(tmp_path), clock=lambda: now[0]).fetch_card("deepseek-chat", "deepseek") == night


@pytest.mark.parametrize("damage", [b"", b"{", b'{"ask":["other",""],"card":null}', b"\xff\xfe", b"[]"])
def test_a_damaged_cache_is_written_anew(tmp_path: Path, damage: bytes) -> None:
    first = pricing(tmp_path).fetch_card("gpt-5")
    (path,) = (tmp_path / "prices" / find_list_version()).glob("gpt-5-*.json")
    kept = path.read_bytes()
    path.write_bytes(damage)
    assert pricing(tmp_path).fetch_card("gpt-5") == first
    assert path.read_bytes() == kept


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the way")
    found = pricing(tmp_path / "cache").fetch_card("gpt-5")
    assert found and found.model == "gpt-5"


@pytest.mark.parametrize(
    "body", ["exit 1", "echo '{}'", "echo nonsense >&2; kill -9 $$", 'echo \'{"table":{},"cards":[null\'']
)
def test_a_list_that_cannot_be_read_leaves_the_price_unknown_for_this_process_alone(
    tmp_path: Path, replace_reader: Callable[[str], None], body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_reader(body)
    asked = pricing(tmp_path)
    assert asked.fetch_card("gpt-5") is None
    assert asyncio.run(pricing(tmp_path).fetch_card_async("gpt-5")) is None
    assert asked.describe_table() == PriceTable(name="genai-prices", version=find_list_version(), newest="")
    monkeypatch.undo()
    assert asked.fetch_card("gpt-5") is None
    assert pricing(tmp_path).fetch_card("gpt-5") is not None


def test_a_list_that_does_not_answer_is_given_up_and_left_behind_by_nobody(
    tmp_path: Path, replace_reader: Callable[[str], None]
) -> None:
    replace_reader(f"echo $$ >> {tmp_path}/pids; exec sleep 600")
    pids = tmp_path / "pids"
    pids.touch()

    async def cancelled(limit_s: float) -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(query_list_async([("gpt-5", "")], now=NOON), limit_s)

    ways: list[Callable[[float], object]] = [
        lambda limit_s: query_list([("gpt-5", "")], now=NOON, limit_s=limit_s),
        lambda limit_s: asyncio.run(query_list_async([("gpt-5", "")], now=NOON, limit_s=limit_s)),
        lambda limit_s: asyncio.run(cancelled(limit_s)),
    ]
    for way in ways:
        before = pids.read_text()
        for limit_s in (0.2, 1.0, 5.0, 25.0):  # Until it has begun: on a machine that is busy, that takes a while.
            assert way(limit_s) is None
            if pids.read_text() != before:
                break
    left = [int(line) for line in pids.read_text().split()]
    assert len(left) >= len(ways)
    assert [pid for pid in left if os.path.exists(f"/proc/{pid}")] == []


def test_a_program_that_cannot_be_started_leaves_the_price_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    assert pricing(tmp_path).fetch_card("gpt-5") is None
    assert asyncio.run(pricing(tmp_path).fetch_card_async("gpt-5")) is None


def test_without_the_list_every_price_is_unknown_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace_reader: Callable[[str], None]
) -> None:
    replace_reader(f"touch {tmp_path}/asked")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    asked = pricing(tmp_path)
    assert (find_list_version(), asked.fetch_card("gpt-5"), asked.describe_table()) == ("", None, None)
    assert not (tmp_path / "asked").exists()


def test_askers_at_the_same_time_share_one_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asks: list[object] = []
    ask = price_list.query_list_async

    async def counted(*arguments: object, **more: object) -> object:
        asks.append(arguments)
        return await ask(*arguments, **more)  # pyright: ignore[reportArgumentType]  as it was called

    monkeypatch.setattr("inspan.spending.pricing.query_list_async", counted)

    async def many() -> list[PriceCard | None]:
        asked = pricing(tmp_path)
        return await asyncio.gather(
            *(asked.fetch_card_async(model) for model in ["gpt-5", "gpt-5", "nobody-knows-me"] * 5)
        )

    found = asyncio.run(many())
    assert [card.model if card else None for card in found] == ["gpt-5", "gpt-5", None] * 5
    assert asks == [([("gpt-5", "")],), ([("nobody-knows-me", "")],)]


def test_one_who_gives_up_does_not_take_the_answer_from_the_others(tmp_path: Path) -> None:
    async def hurried() -> PriceCard | None:
        asked = pricing(tmp_path)
        first = asyncio.create_task(asked.fetch_card_async("gpt-5"))
        second = asyncio.create_task(asked.fetch_card_async("gpt-5"))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(hurried()) is not None


OWN = {"my-model": {"input": 1.25, "output": 10.0, "cache_read": None}, "GPT-5": {"input": 1.0}}


@pytest.mark.parametrize("name", ["my-model", "My-Model", "my-model[1m]", "proxy/my-model"])
def test_prices_of_the_users_own_need_no_list(tmp_path: Path, replace_reader: Callable[[str], None], name: str) -> None:
    replace_reader("exit 1")
    mine = PriceCard(model="my-model", input=Price(base=Decimal("1.25")), output=Price(base=Decimal("10.0")))
    assert pricing(tmp_path, own=OWN).fetch_card(name, "anyone") == mine
    assert asyncio.run(pricing(tmp_path, own=OWN).fetch_card_async(name)) == mine


def test_prices_of_the_users_own_stand_above_the_list(shared_cache: Path) -> None:
    mine = PriceCard(model="GPT-5", input=Price(base=Decimal("1.0")))
    assert pricing(shared_cache, own=OWN).fetch_card("gpt-5", "openai") == mine
    assert pricing(shared_cache, own=OWN).fetch_card("latest", "openai", answered_by="gpt-5") == mine
    assert pricing(shared_cache, own=OWN).fetch_card("my-model", "openai", answered_by="gpt-5") == mine


def test_an_address_on_this_machine_is_nobodys(tmp_path: Path) -> None:
    asked = pricing(tmp_path)
    for url in ("http://127.0.0.1:4321/v1", "http://localhost:1", "http://[::1]:99/"):
        found = asked.fetch_card("gpt-5", url)
        assert found and found.model == "gpt-5"
    assert len(list((tmp_path / "prices" / find_list_version()).glob("gpt-5-*.json"))) == 1


def test_the_list_is_named_with_the_day_of_its_newest_price(shared_cache: Path) -> None:
    table = pricing(shared_cache).describe_table()
    assert table is not None
    assert (table.name, table.version) == ("genai-prices", find_list_version())
    assert "2026-01-01" < table.newest <= "2026-11-15"
    assert str(table) == f"genai-prices {table.version}, newest price of {table.newest}"
    assert msgspec.to_builtins(table) == {"name": table.name, "version": table.version, "newest": table.newest}


def test_the_newest_price_is_never_one_of_tomorrow(tmp_path: Path) -> None:
    past = Pricing(str(tmp_path), clock=lambda: datetime(2025, 1, 1, tzinfo=UTC).timestamp()).describe_table()
    assert past is not None and past.newest < "2025-01-01"
    later = pricing(tmp_path).describe_table()
    assert later is not None and later.newest > "2026-01-01"


def test_neither_the_list_nor_what_it_needs_is_loaded_here() -> None:
    code = "import sys, inspan.spending.pricing as pricing; pricing.Pricing('/nowhere'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "inspan.spending.pricing" in loaded
    assert [name for name in ("genai_prices", "pydantic", "httpx2", "asyncio", "ssl") if name in loaded] == []
