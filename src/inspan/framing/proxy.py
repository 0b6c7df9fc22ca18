"""Which proxy is on the way to a host, by the environment variables that programs agree on. Standard library alone."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def proxy_variables(environment: "Mapping[str, str]") -> "dict[str, str]":
    """Those of the variables that name proxies, with names in lower case: `https_proxy`, `all_proxy`, `no_proxy`, …"""
    return {
        name.lower(): value for name, value in environment.items() if name.lower().endswith("_proxy") and value.strip()
    }


def find_proxy(scheme: str, host: str, port: int, variables: "Mapping[str, str]") -> str:
    """The URL of the proxy on the way to a host (without brackets, in lower case), or nothing.

    Loopback never has one.
    """
    url = (variables.get(f"{scheme}_proxy") or variables.get("all_proxy") or "").strip()
    if not url or is_loopback(host) or bypasses_proxy(host, port, variables.get("no_proxy", "")):
        return ""
    return url if "://" in url else f"http://{url}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name, or by an address that is never another one."""
    return host in ("::1", "localhost") or host.startswith("127.") or host.endswith(".localhost")


def bypasses_proxy(host: str, port: int, no_proxy: str) -> bool:
    """Whether one of the entries, separated by commas or spaces, covers the host."""
    return any(_covers(entry.lower(), host, port) for entry in no_proxy.replace(",", " ").split())


def _covers(entry: str, host: str, port: int) -> bool:
    """An entry is `*`, a host or the end of one, with or without a dot in front and a port behind."""
    name, _, its_port = entry.rpartition(":")
    if not (its_port.isascii() and its_port.isdigit()) or (":" in name and not name.endswith("]")):
        name, its_port = entry, ""
    if its_port and int(its_port) != port:
        return False
    name = name.strip("[]").removeprefix("*").removeprefix(".")
    return entry == "*" or host == name or (bool(name) and host.endswith(f".{name}"))


def basic_authorization(login: str) -> str:
    """The value of a `proxy-authorization` header for `USER:PASSWORD` as a URL has it, or nothing."""
    if not login:
        return ""
    from base64 import b64encode  # Start-up time: few have such a proxy.
    from urllib.parse import unquote_to_bytes

    user, _, password = login.partition(":")
    return "Basic " + b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password)).decode()
