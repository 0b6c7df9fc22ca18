"""What a sandbox may reach: nothing, the run's gateway, some hosts, or everything. Names and addresses, no I/O."""

import re
from typing import TYPE_CHECKING, Literal

import msgspec

from inspan.errors import BadInput

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

Reach = Literal["open", "gateway", "none", "allow"]

USUAL_PORTS = (80, 443)
_ALLOW = "allow="
_NEXT_STEP = "Use none, gateway, open, or allow=HOST[:PORT],… such as allow=pypi.example,*.example.org,10.0.0.5:8080."
_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")
_LOCAL_NAME = "localhost"
_THIS_MACHINE = (_LOCAL_NAME, "127.0.0.1", "::1")
# Where clouds tell a machine its credentials, beside the link-local ones: AWS, Google, Alibaba, Azure, Oracle.
_METADATA = ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")


class HostRule(msgspec.Struct, frozen=True, kw_only=True):
    """A host that may be reached: a name, `*.` and a name for every host below it, or an address.

    Without a port it is the two that the web uses.
    """

    host: str
    port: int | None = None

    def matches(self, host: str, port: int) -> bool:
        """Whether the rule is about this host, given as `normalize_host` gives it."""
        if port != self.port and (self.port is not None or port not in USUAL_PORTS):
            return False
        return host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def names_machine(self) -> bool:
        """Whether the rule itself names an address or this machine, so that it needs no name server's word."""
        return self.host == _LOCAL_NAME or is_address(self.host)


class NetworkPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`rules` are the hosts of `allow`; the gateway can be reached then, too."""

    reach: Reach = "open"
    rules: tuple[HostRule, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.reach == "open"

    @property
    def local_ports(self) -> dict[int, str]:
        """The ports of this machine that are on the list, with the host that the list names."""
        named = [rule for rule in self.rules if rule.host in _THIS_MACHINE]
        return {port: rule.host for rule in named for port in ([rule.port] if rule.port else USUAL_PORTS)}

    def __str__(self) -> str:
        return f"{_ALLOW}{','.join(map(str, self.rules))}" if self.reach == "allow" else self.reach

    def find_rule(self, host: str, port: int) -> HostRule | None:
        """The rule by which a host may be reached, if any."""
        return next((rule for rule in self.rules if rule.matches(host, port)), None)


def parse_network(text: str, *, field: str = "--net") -> NetworkPolicy:
    """Reads `none`, `gateway`, `open` or `allow=HOST[:PORT],…`; raises `BadInput` about the `field`."""
    if text in ("none", "gateway", "open"):
        return NetworkPolicy(reach=text)
    entries = text.removeprefix(_ALLOW).split(",")
    if not text.startswith(_ALLOW) or not any(entry.strip() for entry in entries):
        raise BadInput(field, text, "it says no network that a sandbox can have.", next_step=_NEXT_STEP)
    try:
        return NetworkPolicy(reach="allow", rules=tuple(_parse_rule(entry.strip()) for entry in entries))
    except ValueError as error:
        raise BadInput(field, text, str(error), next_step=_NEXT_STEP) from error


def normalize_host(host: str) -> str:
    """A host as rules have it: in lower case and ASCII, without brackets and the dot of the root, an address in its
    one usual spelling; empty where it is no host.
    """
    host = host.removeprefix("[").removesuffix("]").removesuffix(".").lower()
    try:
        host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return ""
    if address := _parse_address(host):
        return str(address)
    return host if _NAME.fullmatch(host) and not host.startswith("*") else ""


def format_place(host: str, port: int) -> str:
    """A host and its port as a rule has them: the brackets keep an address of IPv6 apart from its port."""
    return str(HostRule(host=host, port=port))


def is_address(host: str) -> bool:
    return _parse_address(host) is not None


def is_public_enough(address: str) -> bool:
    """Whether a name may stand for this address. What only this machine or its link can mean is nobody's name: a name
    server that says so leads a sandbox back to the host, or to a cloud's metadata.
    """
    found = _parse_address(address.partition("%")[0])
    local = found is not None and (found.is_loopback or found.is_link_local or found.is_unspecified)
    return not (found is None or local or found.is_multicast or str(found) in _METADATA)


def _parse_address(host: str) -> "IPv4Address | IPv6Address | None":
    """An IPv4 address that is written as one of IPv6 is the IPv4 address."""
    import ipaddress  # Start-up time: few runs have a network of their own.

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _parse_rule(entry: str) -> HostRule:
    """Raises `ValueError` with what is wrong with it."""
    host, port = _split_port(entry)
    wild = host.startswith("*.")
    name = normalize_host(host.removeprefix("*."))
    if not name or (wild and (is_address(name) or "." not in name)):
        raise ValueError(f"{entry!r} is not a host.")
    if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{entry!r} has no port from 1 to 65535.")
    return HostRule(host=f"*.{name}" if wild else name, port=int(port) if port else None)


def _split_port(entry: str) -> tuple[str, str | None]:
    """The host and, behind a colon, its port; an address of IPv6 has colons of its own."""
    if entry.startswith("["):
        host, closed, rest = entry.partition("]")
        if not closed or (rest and not rest.startswith(":")):
            return "", None
        return host, rest[1:] if rest else None
    host, colon, port = entry.rpartition(":")
    if not colon or ":" in host:
        return entry, None
    return host, port
