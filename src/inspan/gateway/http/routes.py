"""Where a request goes: the origin that a URL names, and the proxy on the way to it. Pure."""

import re
from collections.abc import Mapping

import msgspec

from inspan.errors import BadInput
from inspan.framing.proxy import basic_authorization, find_proxy, is_loopback

_DEFAULT_PORTS = {"http": 80, "https": 443}
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?:(?P<login>[^/?#@\s]*)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^/?#@:\[\]\s]+)(?::(?P<port>\d{1,5}))?"
    r"(?P<path>/[^?#\s]*)?(?P<rest>[?#].*)?"
)


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """A scheme, a host (no brackets, as ASCII) and a port."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """As a `host` header and a URL have it: without the port that the scheme implies."""
        return self.host_in_url if self.port == _DEFAULT_PORTS[self.scheme] else f"{self.host_in_url}:{self.port}"

    @property
    def host_in_url(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy that is spoken to in plain HTTP; `authorization` is the value of a header, or empty."""

    origin: Origin
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.origin})"


def read_base_url(url: str) -> tuple[Origin, str]:
    """The origin and the path (no slash at its end) of a provider's address; raises `BadInput`."""
    found = _URL.fullmatch(url.strip())
    if found is None or found["login"] is not None or found["rest"] is not None:
        shown = hide_secrets(url)
        raise BadInput(
            "base_url", shown, "not an address of a provider.", next_step="Write https://HOST[:PORT][/PATH]."
        )
    return _parse_origin(found, field="base_url", shown=url, schemes=("http", "https")), (found["path"] or "").rstrip(
        "/"
    )


def hide_secrets(url: str) -> str:
    """An address, or what was meant as one, as it may be shown: without a login, and without what stands behind a
    question mark or a number sign, which is often a key."""
    behind = re.search(r"[?#]", url)
    end = behind.start() if behind else len(url)
    scheme, found, rest = url[:end].partition("://")
    place = rest if found else scheme
    host = f"…@{place.rpartition('@')[2]}" if "@" in place else place
    return f"{f'{scheme}://' if found else ''}{host}{f'{behind[0]}…' if behind else ''}"


def check_key(key: str, *, source: str = "the place where the key comes from") -> None:
    """Raises `BadInput` for a key that cannot be sent; `source` says what to look at."""
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise BadInput(
            "key",
            "(hidden)",
            "cannot be sent in a header: it begins or ends with a space, or is not plain text.",
            next_step=f"Look at {source}.",
        )


def proxy_for(origin: Origin, proxies: Mapping[str, str]) -> Proxy | None:
    """The proxy on the way to an origin, if any: loopback never has one. Raises `BadInput` for one of a wrong kind.

    `proxies` are the variables that programs agree on, in lower case: `https_proxy`, `http_proxy`, `all_proxy`,
    `no_proxy`.
    """
    url = find_proxy(origin.scheme, origin.host, origin.port, proxies)
    if not url:
        return None
    found = _URL.fullmatch(url)
    shown = re.sub(r"^(.*//)?[^/]*@", r"\1…@", url)
    if found is None:
        raise BadInput("proxy", shown, "not an address.", next_step="Write http://[USER:PASSWORD@]HOST[:PORT].")
    return Proxy(
        origin=_parse_origin(found, field="proxy", shown=shown, schemes=("http",)),
        authorization=basic_authorization(found["login"] or ""),
    )


def _parse_origin(found: re.Match[str], *, field: str, shown: str, schemes: tuple[str, ...]) -> Origin:
    scheme = found["scheme"].lower()
    if scheme not in schemes:
        raise BadInput(field, shown, f"{scheme} is not supported.", next_step=f"It can be {' or '.join(schemes)}.")
    port = int(found["port"] or _DEFAULT_PORTS[scheme])
    if not 0 < port < 65536:
        raise BadInput(field, shown, f"there is no port {port}.", next_step="Ports go from 1 to 65535.")
    return Origin(scheme=scheme, host=_to_ascii(found["host"].strip("[]").lower(), field=field, shown=shown), port=port)


def _to_ascii(host: str, *, field: str, shown: str) -> str:
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        raise BadInput(field, shown, f"{host} is not the name of a host.") from None
