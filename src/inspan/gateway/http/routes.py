"""Where a request goes: the origin that a URL names, and the proxy on the way to it. Pure."""

import re
from collections.abc import Mapping

import msgspec

from inspan.errors import BadInput

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
        return self.host in ("::1", "localhost") or self.host.startswith("127.") or self.host.endswith(".localhost")

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
        shown = re.sub(r"//[^/@]*@", "//…@", url)
        raise BadInput(
            "base_url", shown, "not an address of a provider.", next_step="Write https://HOST[:PORT][/PATH]."
        )
    return _origin(found, field="base_url", shown=url, schemes=("http", "https")), (found["path"] or "").rstrip("/")


def check_key(key: str) -> None:
    """Raises `BadInput` for a key that cannot be sent."""
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise BadInput(
            "key",
            "(hidden)",
            "cannot stand in a header: it begins or ends with a space, or is no plain text.",
            next_step="Look at the place where the key comes from.",
        )


def proxy_for(origin: Origin, proxies: Mapping[str, str]) -> Proxy | None:
    """The proxy on the way to an origin, if any: loopback never has one. Raises `BadInput` for one of a wrong kind.

    `proxies` are the variables that programs agree on, in lower case: `https_proxy`, `http_proxy`, `all_proxy`,
    `no_proxy`.
    """
    url = proxies.get(f"{origin.scheme}_proxy") or proxies.get("all_proxy") or ""
    if not url or origin.is_loopback or _needs_none(origin, proxies.get("no_proxy", "")):
        return None
    found = _URL.fullmatch(url if "://" in url else f"http://{url}")
    shown = re.sub(r"^(.*//)?[^/]*@", r"\1…@", url)
    if found is None:
        raise BadInput("proxy", shown, "not an address.", next_step="Write http://[USER:PASSWORD@]HOST[:PORT].")
    return Proxy(
        origin=_origin(found, field="proxy", shown=shown, schemes=("http",)), authorization=_basic(found["login"] or "")
    )


def _origin(found: re.Match[str], *, field: str, shown: str, schemes: tuple[str, ...]) -> Origin:
    scheme = found["scheme"].lower()
    if scheme not in schemes:
        raise BadInput(field, shown, f"{scheme} is not spoken.", next_step=f"It can be {' or '.join(schemes)}.")
    port = int(found["port"] or _DEFAULT_PORTS[scheme])
    if not 0 < port < 65536:
        raise BadInput(field, shown, f"there is no port {port}.", next_step="Ports go from 1 to 65535.")
    return Origin(scheme=scheme, host=_ascii(found["host"].strip("[]").lower(), field=field, shown=shown), port=port)


def _ascii(host: str, *, field: str, shown: str) -> str:
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        raise BadInput(field, shown, f"{host} is no name of a host.") from None


def _needs_none(origin: Origin, exceptions: str) -> bool:
    return any(_covers(entry.lower(), origin) for entry in exceptions.replace(",", " ").split())


def _covers(entry: str, origin: Origin) -> bool:
    """An entry is `*`, a host or the end of one, with or without a dot in front and a port behind."""
    name, _, port = entry.rpartition(":")
    if not port.isdigit() or (":" in name and not name.endswith("]")):
        name, port = entry, ""
    if port and int(port) != origin.port:
        return False
    name = name.strip("[]").removeprefix("*").removeprefix(".")
    return entry == "*" or origin.host == name or (bool(name) and origin.host.endswith(f".{name}"))


def _basic(login: str) -> str:
    if not login:
        return ""
    from base64 import b64encode  # Few have such a proxy.
    from urllib.parse import unquote_to_bytes

    user, _, password = login.partition(":")
    return "Basic " + b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password)).decode()
