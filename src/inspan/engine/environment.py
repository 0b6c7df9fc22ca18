"""The environment of an agent: the parent's, without what is not its own, with what the run adds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from inspan.contracts.driver import Driver
from inspan.protocol.task import McpServer
from inspan.redaction import secrets_in

_OWN_SECRETS = "RUN_TOKEN"


def agent_environment(
    parent: Mapping[str, str],
    *,
    driver: Driver,
    others: Iterable[Driver],
    clean: bool,
    gateway: bool,
    added: Mapping[str, str],
    login: bool = False,
) -> dict[str, str]:
    """What the agent gets. Behind a gateway it holds none of the provider's keys; `clean` leaves out every secret.

    With a `login` it holds no key either: a key would win over it.
    """
    foreign = tuple(prefix for other in others if other.name != driver.name for prefix in other.variables)
    own = driver.variables if clean or gateway else ()
    kept = {name: value for name, value in parent.items() if not name.startswith((*foreign, *own))}
    if not gateway:
        kept |= {name: parent[name] for name in driver.credentials if name in parent}
    if clean:
        secret = secrets_in(kept).keys() - ({} if gateway else set(driver.credentials))
        kept = {name: value for name, value in kept.items() if name not in secret}
    for name in (*driver.markers, *(driver.credentials if login else ())):
        kept.pop(name, None)
    return kept | dict(added)


def known_secrets(
    parent: Mapping[str, str],
    added: Mapping[str, str],
    *,
    credentials: Sequence[str],
    token: str,
    servers: Iterable[McpServer] = (),
) -> dict[str, str]:
    """Every secret that could appear in this run's output, by name; one that the run replaces is still a secret."""
    found = {_OWN_SECRETS: token} if token else {}
    for env in (parent, added, *_given_to(servers)):
        keys = {name: env[name] for name in credentials if len(env.get(name, "")) >= 8}
        for name, value in {**secrets_in(env), **keys}.items():
            found[name if found.get(name, value) == value else f"{name}.added"] = value
    return found


def _given_to(servers: Iterable[McpServer]) -> Iterator[Mapping[str, str]]:
    """The variables of servers of tools, and their headers as if they were variables, each without its scheme."""
    for server in servers:
        yield server.env
        yield {f"{name.upper()}_TOKEN": value.rpartition(" ")[2] for name, value in server.headers.items()}
