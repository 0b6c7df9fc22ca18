"""Who may come in: a request must carry the run's token, in one of the places where agents put a key.

The head alone decides. What is let in goes on without the token.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from inspan.framing.http import RequestHead
from inspan.gateway.target import BadTarget, Target, parse_target
from inspan.gateway.upstream import KeyPlace
from inspan.gateway.wires import WIRES

# Where the token stands for agents that bring their own login: in front of every path.
_PREFIX = "/run/"
_KEY_PLACES = tuple(dict.fromkeys(place for wire in WIRES for place in wire.key_places))


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """What a head asks for. `has_token`: it carried the token; `target` is None where `problem` says what is wrong."""

    method: str
    target: Target | None
    headers: Mapping[str, str]
    has_token: bool
    key_places: tuple[KeyPlace, ...] = ()
    problem: str = ""

    def find_key_place(self, usual: tuple[KeyPlace, ...]) -> KeyPlace:
        """Where the provider's key goes: where the token was, if its wire has a key there, else the usual place."""
        return next((place for place in usual if place in self.key_places), usual[0])


def pass_through_url(url: str, token: str) -> str:
    """The gateway's address for an agent whose headers hold a login of its own."""
    return f"{url}{_PREFIX}{token}"


def authenticate(head: RequestHead, token: str) -> Admission:
    """Looks for the token, and takes it out wherever it stands in the place of a key."""
    try:
        target, problem = parse_target(head.target), ""
    except BadTarget as error:
        target, problem = None, str(error)
    in_path = bool(token) and target is not None and _is_in_path(target.path, token)
    if target is not None and in_path:
        target = replace(target, path=target.path[len(_PREFIX) + len(token) :] or "/")
    places = tuple(_find_key_places(head.headers, target, token)) if token else ()
    taken = {place.name for place in places if not place.in_query}
    asked = {_build_field(place, token) for place in places if place.in_query}
    if target is not None and asked:
        target = replace(target, fields=tuple(field for field in target.fields if field not in asked))
    return Admission(
        method=head.method,
        target=target,
        headers={name: value for name, value in head.headers.items() if name not in taken},
        has_token=in_path or bool(places),
        key_places=places,
        problem=problem,
    )


def _is_in_path(path: str, token: str) -> bool:
    prefix = f"{_PREFIX}{token}"
    return path == prefix or path.startswith(f"{prefix}/")


def _find_key_places(headers: Mapping[str, str], target: Target | None, token: str) -> Iterator[KeyPlace]:
    for place in _KEY_PLACES:
        if place.in_query:
            if target is not None and _build_field(place, token) in target.fields:
                yield place
        elif _read_key(headers.get(place.name, ""), place.scheme) == token:
            yield place


def _read_key(value: str, scheme: str) -> str:
    if not scheme:
        return value
    found, _, key = value.partition(" ")
    return key.strip(" ") if found.lower() == scheme.lower() else ""


def _build_field(place: KeyPlace, token: str) -> tuple[bytes, bytes | None]:
    return place.name.encode(), token.encode()
