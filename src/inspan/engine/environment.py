"""The environment of an agent: the parent's, without what is not its own, with what the run adds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from inspan.contracts.driver import Driver
from inspan.protocol.task import McpServer
from inspan.redaction import secrets_in

from .access import login_secrets
from .catalogue import Neighbour, neighbours

_OWN_SECRETS = "RUN_TOKEN"
_SHORTEST_KEY = 8
_PROXIES = ("http_proxy", "all_proxy")
_GATEWAY_HOST = "127.0.0.1"


def agent_environment(
    parent: Mapping[str, str],
    *,
    driver: Driver,
    others: Iterable[Neighbour],
    clean: bool,
    gateway: bool,
    added: Mapping[str, str],
    login: bool = False,
    key: str = "",
) -> dict[str, str]:
    """What the agent gets. Behind a gateway it holds none of the provider's keys; `clean` leaves out every secret.

    The `key` that the gateway adds stands in no variable, whatever that is called.

    With a `login` it holds no key either, for a key would win over it; a key that is added stands alone.
    """
    foreign = tuple(prefix for other in others if other.name != driver.name for prefix in other.variables)
    replaced = (*driver.credentials, *driver.base_url_variables, *driver.switches)
    own = (*driver.variables, *replaced)  # Some of them bear the name of another agent's.
    kept = {name: value for name, value in parent.items() if not name.startswith(foreign) or name.startswith(own)}
    taken = (*(own if clean else replaced if gateway else ()), *driver.withheld)
    kept = {name: value for name, value in kept.items() if not name.startswith(taken)}
    if not gateway:
        kept |= {name: parent[name] for name in driver.credentials if name in parent}
    keys = {added[name] for name in driver.credentials if name in added}
    if clean:
        secret = secrets_in(kept).keys() - ({} if gateway else set(driver.credentials))
        secret |= {name for name, value in kept.items() if value in keys and len(value) >= _SHORTEST_KEY}
        kept = {name: value for name, value in kept.items() if name not in secret}
    if gateway and len(key) >= _SHORTEST_KEY:
        kept = {name: value for name, value in kept.items() if key not in value}
    for name in (*driver.markers, *_replaced(driver, kept, keys=keys, login=login)):
        kept.pop(name, None)
    made = kept | dict(added)
    return _past_proxies(made) if gateway else made


def known_secrets(
    parent: Mapping[str, str],
    added: Mapping[str, str],
    *,
    credentials: Sequence[str],
    token: str,
    servers: Iterable[McpServer] = (),
) -> dict[str, str]:
    """Every secret that could appear in this run's output, by name; one that the run replaces is still a secret.

    The tokens of the user's logins are among them: whatever the run itself uses, its agent could read and print them.
    """
    found = {_OWN_SECRETS: token} if token else {}
    agents = neighbours(parent)
    # What is added may put the logins of some elsewhere: only those are looked for again.
    moved = [each for each in agents if "HOME" in added or each.config_variable in added]
    logins = [login_secrets(agents, parent), login_secrets(moved, {**parent, **added})]
    given = [_secrets_of(env, credentials) for env in (parent, added, *_given_to(servers))]
    for secrets in (*logins, *given):
        for name, value in secrets.items():
            found[name if found.get(name, value) == value else f"{name}.added"] = value
    return found


def _past_proxies(env: dict[str, str]) -> dict[str, str]:
    """With the gateway's host among those that need no proxy: the agents would ask a proxy for loopback, too."""
    if not any(value and name.lower() in _PROXIES for name, value in env.items()):
        return env
    found = {name: env.get(name, "") for name in ("NO_PROXY", "no_proxy")}
    listed = found["no_proxy"] or found["NO_PROXY"]
    entries = [entry for entry in listed.replace(",", " ").split() if entry != _GATEWAY_HOST]
    return env | dict.fromkeys(found, ",".join([*entries, _GATEWAY_HOST]))


def _secrets_of(env: Mapping[str, str], credentials: Sequence[str]) -> dict[str, str]:
    keys = {name: env[name] for name in credentials if len(env.get(name, "")) >= _SHORTEST_KEY}
    return {**secrets_in(env), **keys}


def _replaced(driver: Driver, kept: Mapping[str, str], *, keys: set[str], login: bool) -> Iterator[str]:
    """The key variables that may not reach the agent: beside a login or another key, one of them might win."""
    for name in driver.credentials:
        same = name in driver.key_aliases and kept.get(name) in keys
        if login or (keys and not same):
            yield name


def _given_to(servers: Iterable[McpServer]) -> Iterator[Mapping[str, str]]:
    """The variables of servers of tools, and their headers as if they were variables, each without its scheme."""
    for server in servers:
        yield server.env
        yield {f"{name.upper()}_TOKEN": value.rpartition(" ")[2] for name, value in server.headers.items()}
