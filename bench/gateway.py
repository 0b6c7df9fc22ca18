"""What the gateway adds to a model call, against the same client straight at the same provider, and against LiteLLM."""

import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median, quantiles
from typing import NamedTuple

import msgspec

from bench.sides.caller import Route, Wanted
from bench.stage.litellm import VERSION, CannotInstall, install, litellm
from bench.stage.place import Place, place
from bench.stage.processes import side
from bench.stage.rows import Row, at_most, at_most_alone
from bench.stage.servers import Server, memory_mb, serving

_TOKEN = "sk-bench-token-0123456789"
_KEY = "sk-bench-provider-key-0123456789"
_EVENTS = 40
_STREAMS = 200
_SETTLE_S = 2.0
_LITELLM = f"LiteLLM {VERSION}: /anthropic pass-through, 1 worker, uvloop, httptools, PRODUCTION, logs errors alone"


class Latencies(NamedTuple):
    """Of one route, in ms: the first byte of each answer, and each event from the provider's write to the read."""

    first: list[float]
    chunk: list[float]


class Added(NamedTuple):
    """What a route adds, in ms."""

    first: float
    chunk: float


class Amount(NamedTuple):
    """How much traffic: calls one after the other, and rounds of 200 streams with so many calls each."""

    calls: int
    rounds: int
    calls_each: int


def measure(*, quick: bool = False) -> list[Row]:
    """Calls one by one, every route in turn; then many streams at once, route by route; last what is still held."""
    amount = Amount(calls=12, rounds=1, calls_each=1) if quick else Amount(150, 3, 2)
    with place() as here, _served(here) as (routes, servers):
        alone = _one_by_one(here, routes, amount)
        together = _at_once(here, routes, amount)
        time.sleep(_SETTLE_S)
        held = {name: memory_mb(server.pid) for name, server in servers.items()}
    rows = [*_against_straight(alone, amount), _under_load(together, amount)]
    return rows + (_against_litellm(alone, held) if "litellm" in servers else [])


@contextmanager
def _served(here: Place) -> Generator[tuple[list[Route], dict[str, Server]]]:
    """A provider, the gateway to it, and LiteLLM to it where that can be had."""
    with ExitStack() as stack:
        provider = stack.enter_context(serving("provider", here=here))
        gateway = stack.enter_context(serving("gateway", _TOKEN, _KEY, str(provider.port), here=here))
        routes = [
            Route(name="straight", port=provider.port, key=_KEY),
            Route(name="gateway", port=gateway.port, key=_TOKEN),
        ]
        servers = {"gateway": gateway}
        try:
            peer = litellm(install(), upstream_port=provider.port, token=_TOKEN, key=_KEY, here=here)
            servers["litellm"] = stack.enter_context(peer)
            path = "/anthropic/v1/messages"
            routes.append(Route(name="litellm", port=servers["litellm"].port, path=path, key=_TOKEN))
        except (CannotInstall, RuntimeError) as error:
            print(f"bench: NO LITELLM, its three rows are left out: {error}", file=sys.stderr)
        yield routes, servers


def _one_by_one(here: Place, routes: list[Route], amount: Amount) -> dict[str, Latencies]:
    return _called(here, Wanted(routes=routes, streams=1, requests=amount.calls, events=_EVENTS, gap_ms=2))


def _at_once(here: Place, routes: list[Route], amount: Amount) -> dict[str, list[Latencies]]:
    """Round by round. A stream gets 20 events a second, as fast models talk: latency is measured, not throughput."""
    found: dict[str, list[Latencies]] = {route.name: [] for route in routes}
    for route in (*routes, *(routes[:2] * (amount.rounds - 1))):  # LiteLLM once: it is asked for its memory alone.
        wanted = Wanted(
            routes=[route],
            streams=_STREAMS,
            requests=amount.calls_each,
            events=_EVENTS,
            gap_ms=50,
            spread_s=2.0,
        )
        found[route.name].append(_called(here, wanted)[route.name])
    return found


def _called(here: Place, wanted: Wanted) -> dict[str, Latencies]:
    told = side("caller", msgspec.json.encode(wanted).decode(), env=here.env, cwd=here.path("work"))
    return {
        name: Latencies(*([each / 1000 for each in seen[figure]] for figure in ("first_us", "chunk_us")))
        for name, seen in told.items()
    }


def _against_straight(alone: dict[str, Latencies], amount: Amount) -> list[Row]:
    added, straight = _added(alone, "gateway"), Added(*map(median, alone["straight"]))
    note = f"p50 of {amount.calls} calls of 46 kB with {_EVENTS} events, in turn with as many straight to the provider"
    rows = (("gateway_first_byte_ms", 1.5, "first"), ("gateway_chunk_ms", 0.2, "chunk"))
    return [
        at_most_alone(
            name,
            getattr(added, figure),
            bar=bar,
            unit="ms added",
            note=f"{note}, which took {getattr(straight, figure):.2f} ms",
        )
        for name, bar, figure in rows
    ]


def _added(alone: dict[str, Latencies], name: str) -> Added:
    """By their medians."""
    return Added(*(median(ours) - median(theirs) for ours, theirs in zip(alone[name], alone["straight"], strict=True)))


def _under_load(together: dict[str, list[Latencies]], amount: Amount) -> Row:
    """The worse of two: what is added to the p95 of events, and to the p95 of first bytes."""
    added: list[float] = []
    said: list[str] = []
    for number, figure in enumerate(("first byte", "event")):
        ours, straight = ([_p95(each[number]) for each in together[name]] for name in ("gateway", "straight"))
        added.append(median(one - other for one, other in zip(ours, straight, strict=True)))
        said.append(f"{figure} {median(ours):.1f} against {median(straight):.1f}")
    note = (
        f"p95 through the gateway less p95 straight, the worse of {' and '.join(said)}; {_STREAMS} streams at once, 20 "
        f"events/s and {amount.calls_each} calls each, median of {amount.rounds}; client and provider share the cores"
    )
    return at_most_alone("gateway_200_streams_p95_ms", max(added), bar=20, unit="ms added", note=note)


def _against_litellm(alone: dict[str, Latencies], held: dict[str, float]) -> list[Row]:
    """The bar on latency is held against the first byte; events have a row of their own, without a bar."""
    ours, theirs = _added(alone, "gateway"), _added(alone, "litellm")
    note = f"p50, calls of 46 kB in turn; {_LITELLM}"
    return [
        at_most(
            "gateway_latency_vs_litellm",
            ours.first,
            theirs.first,
            bar=0.25,
            unit="ms added",
            note=f"added until the first byte, {note}",
        ),
        at_most(
            "gateway_chunk_vs_litellm",
            ours.chunk,
            theirs.chunk,
            bar=None,
            unit="ms added",
            note=f"added to each event, {note}",
        ),
        at_most(
            "gateway_memory_vs_litellm",
            held["gateway"],
            held["litellm"],
            bar=0.3,
            unit="MB",
            note=f"resident in its processes {_SETTLE_S:g} s after the same calls and {_STREAMS} streams; {_LITELLM}",
        ),
    ]


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1]
