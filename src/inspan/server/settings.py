"""What a server is started with."""

import ipaddress
import os

import msgspec


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens and what it lets be done. `roots` are real paths; `hosts` names beside its own.

    `env` is the environment in which it prepares runs, `port` the one that it got. It `allows_direct` runs, without the
    gateway, where whoever started it says so.
    """

    state: str
    env: dict[str, str]
    roots: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 0
    read_only: bool = False
    allows_direct: bool = False
    tls: bool = False
    hosts: tuple[str, ...] = ()
    started_at: float = 0.0

    @property
    def cookie_name(self) -> str:
        """Browsers keep one jar for all ports of a host: so each server has a name of its own."""
        return f"inspan-{self.port}"

    @property
    def url(self) -> str:
        """Where the page is found from this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.host, self.host)
        return f"{'https' if self.tls else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine gets there."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def find_folder_problem(path: str) -> str:
    """What is wrong with a folder that runs may start below; empty where nothing is."""
    if not os.path.isdir(path):
        return "there is no such folder." if not os.path.exists(path) else "it is not a folder."
    return "" if os.access(path, os.R_OK | os.X_OK) else "it cannot be read."
