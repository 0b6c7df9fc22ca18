"""Who may ask for what: the name that the server is called by, the token, and where a browser's request comes from."""

import asyncio
import ipaddress
import re
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.types import Scope

from .connection import connection_of
from .problems import Refusal
from .settings import ServerSettings
from .token_file import TOKEN_OF_SCOPE, TokenFile

PREFIX = "/api/v1"
LOGIN, LOGOUT = f"{PREFIX}/login", f"{PREFIX}/logout"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_TOKEN_NAMES = frozenset({"token", "access_token", "authorization", "bearer", "api_key"})
_CHALLENGE = {"www-authenticate": 'Bearer realm="inspan"'}
_HOST = re.compile(r"(?:\[(?P<number>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::(?P<port>[0-9]{1,5}))?")
_LAST_PORT = 65535
_KEY_HEADER = "x-inspan-key"
_HOW = "Send `Authorization: Bearer TOKEN`, with the token that `inspan serve` prints."


class BrowserLogin(NamedTuple):
    """The header that sets the cookie, which reads, and the key that a page sends with what changes something."""

    cookie: str
    key: str


class Access:
    """The one door to the API. `admit` raises `Refusal`; it waits only for those whose token was wrong."""

    def __init__(self, settings: ServerSettings, tokens: TokenFile) -> None:
        self._settings = settings
        self._tokens = tokens
        self._failures = FailedLogins()
        self._names = {"localhost", settings.host.lower(), *(name.lower() for name in settings.hosts)}

    def check_host(self, headers: Headers) -> None:
        """Refuses a name that is not the server's: some other site's name may have been pointed here."""
        given = headers.getlist("host")
        host = ", ".join(given)
        name = split_host(host) if len(given) == 1 else ""
        if name not in self._names and not _is_address(name):
            raise Refusal(
                421,
                "unknown_host",
                f"This server is not called {host!r}.",
                next_step="Start it with `--allow-host NAME` if it should be reached by that name.",
            )

    async def admit(self, scope: Scope, headers: Headers) -> None:
        """Refuses a request of the API without a token, from another site, or that a server may not do that only
        shows."""
        _refuse_token_in_query(scope["query_string"])
        # Before it is compared: whoever got in by it is let go of once there is another.
        scope[TOKEN_OF_SCOPE] = self._tokens.token
        is_safe, path = scope["method"] in _SAFE, scope["path"]
        by_cookie = False
        if path == LOGIN:
            self._check_site(headers)
        else:
            by_cookie = await self._authenticate(scope, headers)
            connection_of(scope).greet()
            if by_cookie:
                self._check_site(headers, needs_origin=not is_safe)
        if self._settings.read_only and not is_safe and path not in (LOGIN, LOGOUT):
            raise Refusal(403, "read_only", "This server only shows.", next_step="Start one without `--read-only`.")
        if by_cookie and not is_safe and path != LOGOUT:
            await self._check_key(scope, headers)

    async def log_in(self, scope: Scope, token: str) -> BrowserLogin:
        """What a browser gets for the token; refuses a wrong one."""
        if not self._is_token(token):
            await self._refuse_wrong(scope, "This is not the token of this server.")
        self._failures.forget(_address_of(scope))
        is_read_only = self._settings.read_only
        cookie = self._tokens.derive("read-only cookie" if is_read_only else "cookie")
        key = self._tokens.derive("read-only key" if is_read_only else "key")
        return BrowserLogin(self._format_cookie(cookie), key)

    def log_out(self) -> str:
        """The header that takes the cookie away again."""
        return self._format_cookie("") + "; Max-Age=0"

    def _format_cookie(self, value: str) -> str:
        secure = "; Secure" if self._settings.tls else ""
        return f"{self._settings.cookie_name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}"

    async def _authenticate(self, scope: Scope, headers: Headers) -> bool:
        """Whether it was the cookie that opened."""
        if given := headers.get("authorization", ""):
            kind, _, token = given.partition(" ")
            if kind.lower() != "bearer":
                raise Refusal(401, "unauthorized", "Only bearer tokens are taken.", next_step=_HOW, headers=_CHALLENGE)
            if not self._is_token(token.strip()):
                await self._refuse_wrong(scope, "The token is wrong.")
            self._failures.forget(_address_of(scope))
            return False
        if cookie := _find_cookie(headers, self._settings.cookie_name):
            if not self._is_cookie(cookie):
                await self._refuse_wrong(scope, "The login has expired: the server has a new token.")
            return True
        raise Refusal(401, "unauthorized", "A token is needed.", next_step=_HOW, headers=_CHALLENGE)

    def _is_token(self, given: str) -> bool:
        """A server that only shows is opened by every token, and its own opens no other."""
        is_shown = self._settings.read_only and self._tokens.is_derived(given, "read-only token")
        return is_shown or self._tokens.is_token(given)

    def _is_cookie(self, given: str) -> bool:
        is_shown = self._settings.read_only and self._tokens.is_derived(given, "read-only cookie")
        return is_shown or self._tokens.is_derived(given, "cookie")

    async def _check_key(self, scope: Scope, headers: Headers) -> None:
        """Browsers send a cookie to every port of a host, and a program there may say any origin: so it only reads."""
        given = headers.get(_KEY_HEADER, "")
        if self._tokens.is_derived(given, "key"):
            return
        if given:
            await self._failures.slow_down(_address_of(scope))
        raise Refusal(
            403,
            "key_missing",
            "The cookie alone only reads.",
            next_step="Log in again; programs send the token instead of the cookie.",
        )

    async def _refuse_wrong(self, scope: Scope, detail: str) -> None:
        await self._failures.slow_down(_address_of(scope))
        raise Refusal(401, "unauthorized", detail, next_step=_HOW, headers=_CHALLENGE)

    def _check_site(self, headers: Headers, *, needs_origin: bool = False) -> None:
        """Refuses what another site makes a browser ask for; a request that changes something has to say its own."""
        site, origin = headers.get("sec-fetch-site", ""), headers.get("origin", "")
        is_foreign = site not in ("", "none", "same-origin") or (origin and not _is_own_origin(origin, headers))
        if is_foreign or (needs_origin and not origin and site != "same-origin"):
            raise Refusal(
                403,
                "cross_site",
                f"A page of another site asks for this: {origin or site or 'no origin'}.",
                next_step="Use the page of this server; programs send the token instead of the cookie.",
            )


class _Failed(NamedTuple):
    times: int
    at: float


class FailedLogins:
    """Makes whoever tries wrong tokens wait longer each time. Nobody else waits, and what is kept is bounded."""

    FIRST_S, LONGEST_S, FORGET_S = 0.1, 5.0, 60.0
    MOST_ADDRESSES, MOST_WAITING = 1000, 100

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Failed] = OrderedDict()
        self._waiting = 0

    def forget(self, address: str) -> None:
        """Somebody there has the token."""
        self._known.pop(address, None)

    async def slow_down(self, address: str) -> None:
        """Waits as long as this failure costs; refuses at once when too many wait."""
        now = asyncio.get_running_loop().time()
        before = self._known.pop(address, _Failed(0, now))
        times = before.times + 1 if now - before.at < self.FORGET_S else 1
        self._known[address] = _Failed(times, now)
        while len(self._known) > self.MOST_ADDRESSES:
            self._known.popitem(last=False)
        if self._waiting >= self.MOST_WAITING:
            raise Refusal(429, "slow_down", "Too many wrong tokens.", headers={"retry-after": str(int(self.LONGEST_S))})
        self._waiting += 1
        try:
            await asyncio.sleep(min(self.FIRST_S * 2 ** min(times - 1, 10), self.LONGEST_S))
        finally:
            self._waiting -= 1


def _address_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _refuse_token_in_query(query: bytes) -> None:
    if any(name.lower() in _TOKEN_NAMES for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)):
        raise Refusal(
            400,
            "token_in_query",
            "A token does not belong into an address: addresses are logged and kept.",
            next_step=_HOW,
        )


def _find_cookie(headers: Headers, name: str) -> str:
    try:
        morsel = SimpleCookie("; ".join(headers.getlist("cookie"))).get(name)
    except CookieError:
        return ""
    return morsel.value if morsel else ""


def split_host(host: str) -> str:
    """The name in a Host header, in lower case, without its port and brackets; empty where it is not exactly that."""
    match = _HOST.fullmatch(host.lower())
    if not match or int(match["port"] or 0) > _LAST_PORT:
        return ""
    return (match["number"] or match["name"]).removesuffix(".")


def _is_address(name: str) -> bool:
    """No name can be pointed elsewhere that is none: whoever asks for a number has asked for this machine."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_own_origin(origin: str, headers: Headers) -> bool:
    return origin.partition("://")[2].lower() == headers.get("host", "").lower()
