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
_SETTLE_S = 2.0
_LITELLM = f"LiteLLM {VERSION}: /anthropic pass-through, 1 worker, uvloop and httptools, PRODUCTION, logs of errors only"


class Latencies(NamedTuple):
    """Of one route, in ms: the first byte of each answer, and each event from the provider's write to the read."""

    first: list[float]
    chunk: list[float]


class Amount(NamedTuple):
    """How much traffic: calls one after the other, and rounds of many streams with so many calls each."""

    calls: int
    rounds: int
    streams: int
    calls_each: int


def measure(*, quick: bool = False) -> list[Row]:
    """Calls one by one, every route in turn; then many streams at once, route by route; last what is still held."""
    amount = Amount(calls=12, rounds=1, streams=200, calls_each=1) if quick else Amount(250, 3, 200, 2)
    with place() as here, _served(here) as (routes, servers):
        alone = _one_by_one(here, routes, amount)
        together = _at_once(here, routes, amount)
        time.sleep(_SETTLE_S)
        held = {name: memory_mb(server.pid) for name, server in servers.items()}
    rows = [*_added(alone, amount), _under_load(together, amount)]
    return rows + (_beside_litellm(alone, held) if "litellm" in servers else [])


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
            print(f"bench: NO LITELLM, its two rows are left out: {error}", file=sys.stderr)
        yield routes, servers


def _one_by_one(here: Place, routes: list[Route], amount: Amount) -> dict[str, Latencies]:
    return _called(here, Wanted(routes=routes, streams=1, requests=amount.calls, events=_EVENTS, gap_ms=2))


def _at_once(here: Place, routes: list[Route], amount: Amount) -> dict[str, Latencies]:
    """Each stream gets 20 events a second, as fast models talk; so it is latency that counts, and not throughput."""
    found = {route.name: Latencies([], []) for route in routes}
    for round_number in range(amount.rounds):
        for route in routes:
            if route.name == "litellm" and round_number:
                continue  # Its memory is what is asked of it here, and once is enough.
            wanted = Wanted(
                routes=[route],
                streams=amount.streams,
                requests=amount.calls_each,
                events=_EVENTS,
                gap_ms=50,
                spread_s=2.0,
            )
            for all_of_it, seen in zip(found[route.name], _called(here, wanted)[route.name], strict=True):
                all_of_it += seen
    return found


def _called(here: Place, wanted: Wanted) -> dict[str, Latencies]:
    told = side("caller", msgspec.json.encode(wanted).decode(), env=here.env, cwd=here.path("work"))
    return {
        name: Latencies(*([each / 1000 for each in seen[figure]] for figure in ("first_us", "chunk_us")))
        for name, seen in told.items()
    }


def _added(alone: dict[str, Latencies], amount: Amount) -> list[Row]:
    first, chunk = _more(alone, "gateway")
    straight = Latencies(*([median(each)] for each in alone["straight"]))
    note = f"p50 of {amount.calls} calls of 46 kB and {_EVENTS} events, one by one, in turn with as many straight to the provider"
    return [
        at_most_alone(
            "gateway_first_byte_ms", first, bar=1.5, unit="ms added", note=f"{note} ({straight.first[0]:.2f} ms)"
        ),
        at_most_alone("gateway_chunk_ms", chunk, bar=0.2, unit="ms added", note=f"{note} ({straight.chunk[0]:.2f} ms)"),
    ]


def _more(alone: dict[str, Latencies], name: str) -> tuple[float, float]:
    """What a route adds to the first byte and to an event, by their medians."""
    first, chunk = (median(ours) - median(theirs) for ours, theirs in zip(alone[name], alone["straight"], strict=True))
    return first, chunk


def _under_load(together: dict[str, Latencies], amount: Amount) -> Row:
    """The worse of two: what is added to the p95 of events, and to the p95 of first bytes."""
    said: list[str] = []
    added: list[float] = []
    for figure in Latencies._fields:
        ours, straight = (_p95(getattr(together[name], figure)) for name in ("gateway", "straight"))
        added.append(ours - straight)
        said.append(f"{figure} {ours:.1f} against {straight:.1f}")
    note = (
        f"p95 through the gateway less p95 straight, the worse of {' and '.join(said)}; {amount.streams} streams of 20 "
        f"events/s at once, {amount.calls_each} calls each, {amount.rounds} rounds; client and provider on the same cores"
    )
    return at_most_alone("gateway_200_streams_p95_ms", max(added), bar=20, unit="ms added", note=note)


def _beside_litellm(alone: dict[str, Latencies], held: dict[str, float]) -> list[Row]:
    pairs = {
        figure: (ours, theirs)
        for figure, ours, theirs in zip(
            ("first byte", "event"), _more(alone, "gateway"), _more(alone, "litellm"), strict=True
        )
    }
    worse = max(pairs, key=lambda figure: pairs[figure][0] / pairs[figure][1])
    said = ", ".join(f"{figure} {ours:.2f} against {theirs:.2f}" for figure, (ours, theirs) in pairs.items())
    return [
        at_most(
            "gateway_latency_vs_litellm",
            *pairs[worse],
            bar=0.25,
            unit="ms added",
            note=f"p50 added to the {worse}, the worse ratio of {said}; calls one by one in turn; {_LITELLM}",
        ),
        at_most(
            "gateway_memory_vs_litellm",
            held["gateway"],
            held["litellm"],
            bar=0.3,
            unit="MB",
            note=f"resident in the process tree {_SETTLE_S:g} s after the same calls and 200 streams; {_LITELLM}",
        ),
    ]


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1]
