"""Who may come in: a request must carry the run's token, in one of the places where agents put a key."""

from collections.abc import Iterator
from urllib.parse import parse_qsl

from inspan.gateway.http.server import HttpRequest

# Where the token stands for agents that bring their own login: in front of every path.
_PREFIX = "/run/"
_KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")


def pass_through_url(url: str, token: str) -> str:
    """The gateway's address for an agent whose headers hold a login of its own."""
    return f"{url}{_PREFIX}{token}"


def path_within(http: HttpRequest, token: str) -> str:
    """The path as the provider should see it: without the token that may stand in front of it."""
    return http.path.removeprefix(f"{_PREFIX}{token}") or "/"


def carries(http: HttpRequest, token: str) -> bool:
    """Whether the request is from the run."""
    return bool(token) and token in _shown(http)


def _shown(http: HttpRequest) -> Iterator[str]:
    """Everything in a request that could be a token."""
    scheme, _, bearer = http.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        yield bearer.strip()
    yield from (http.headers[name] for name in _KEY_HEADERS if name in http.headers)
    if http.path.startswith(_PREFIX):
        yield http.path.removeprefix(_PREFIX).partition("/")[0]
    if "key=" in http.query:
        yield from (value for name, value in parse_qsl(http.query) if name == "key")
