"""The environment of an agent: the parent's, without what is not its own, with what the run adds."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from inspan.agents.driver_cache import AgentSummary, agent_summaries
from inspan.contracts.driver import Driver
from inspan.contracts.sandbox import Sandbox
from inspan.credentials.resolve import read_login_secrets
from inspan.protocol.task import McpServer
from inspan.redaction import find_secrets
from inspan.system.loader import is_loader_variable
from inspan.system.programs import helper_path

CONTAINER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are in an image."""
_HOLD_ANYWHERE = ("LANG", "LANGUAGE", "TZ", "TERM")
_OWN_SECRETS = "RUN_TOKEN"
_SHORTEST_KEY = 8
_NO_PROXY = ("no_proxy", "NO_PROXY")  # The first counts where both are set.
_GATEWAY_HOST = "127.0.0.1"
_PLAIN_HEADERS = ("accept", "content-", "user-agent")
_HEADER_WORDS = re.compile(r"[\s;,]+(?:[\w.-]+=(?!=|$))?|^[\w.-]+=(?!=|$)")


def build_agent_environment(
    parent: Mapping[str, str],
    *,
    driver: Driver,
    others: Iterable[AgentSummary],
    clean: bool,
    gateway: bool,
    run_env: Mapping[str, str],
    login: bool = False,
    key: str = "",
    private: bool = False,
) -> dict[str, str]:
    """What the agent gets. Behind a gateway it holds none of the provider's keys; `clean` leaves out every secret, and
    a `private` sandbox every one that is not for the agent itself.

    The `key` that the gateway adds stands in no variable, whatever that is called.

    With a `login` it holds no key either, for a key would win over it; a key that is added stands alone.
    """
    foreign = tuple(prefix for other in others if other.name != driver.name for prefix in other.variables)
    replaced = (*driver.provider.credentials, *driver.provider.base_url_variables, *driver.access.override_variables)
    own = (*driver.access.variables, *replaced)  # Some of them bear the name of another agent's.
    kept = {name: value for name, value in parent.items() if not name.startswith(foreign) or name.startswith(own)}
    taken = (*(own if clean else replaced if gateway else ()), *driver.access.withheld_credentials)
    kept = {name: value for name, value in kept.items() if not name.startswith(taken)}
    if not gateway:
        kept |= {name: parent[name] for name in driver.provider.credentials if name in parent}
    keys = {run_env[name] for name in driver.provider.credentials if name in run_env}
    if private and not clean:
        spared = {name for name in kept if name.startswith(own) or name.lower().endswith("_proxy")}
        withheld = find_secrets(kept).keys() - spared
        kept = {name: value for name, value in kept.items() if name not in withheld}
    if clean:
        secret = find_secrets(kept).keys() - ({} if gateway else set(driver.provider.credentials))
        secret |= {name for name, value in kept.items() if value in keys and len(value) >= _SHORTEST_KEY}
        kept = {name: value for name, value in kept.items() if name not in secret}
    if gateway and len(key) >= _SHORTEST_KEY:
        kept = {name: value for name, value in kept.items() if key not in value}
    for name in (*driver.state.nesting_variables, *_select_withheld_keys(driver, kept, keys=keys, login=login)):
        kept.pop(name, None)
    made = kept | dict(run_env)
    return made | dict.fromkeys(_NO_PROXY, hosts_without_proxy(made)) if gateway else made


def collect_secrets(
    parent: Mapping[str, str],
    *added: Mapping[str, str],
    credentials: Sequence[str],
    token: str,
    servers: Iterable[McpServer] = (),
    key_from: str = "",
    settings: Iterable[Mapping[str, str]] = (),
) -> tuple[tuple[str, str], ...]:
    """Every secret that could appear in this run's output, each value once and named; several may have one name.

    One that the run replaces is still a secret. The tokens of the user's logins are among them: whatever the run itself
    uses, its agent could read and print them. So is what its `settings` assign and what the command of `key_from` does,
    which is written down.
    """
    found = [(_OWN_SECRETS, token)] if token else []
    agents = agent_summaries(parent)
    # What is added may put the logins of some elsewhere: only those are looked for again.
    last = {name: value for env in added for name, value in env.items()}
    moved = [each for each in agents if "HOME" in last or each.state.config_variable in last]
    found += [*read_login_secrets(agents, parent), *read_login_secrets(moved, {**parent, **last})]
    for env in (parent, *added, *_collect_server_values(servers), *name_arguments(_words_of(key_from)), *settings):
        found += _find_secrets(env, credentials)
    # Turned around: of two names for one value the first stays.
    names = {value: name for name, value in reversed(found)}
    return tuple((name, value) for value, name in reversed(names.items()))


def secrets_of_servers(servers: Iterable[McpServer]) -> tuple[str, ...]:
    """The secrets in addresses and arguments of MCP servers, as redaction finds them."""
    said = (each for server in servers for each in ({"URL": server.url}, *name_arguments(server.args)))
    return tuple(dict.fromkeys(secret for each in said for secret in find_secrets(each).values()))


def hosts_without_proxy(env: Mapping[str, str]) -> str:
    """The hosts that these variables reach without a proxy, and the gateway's: agents would ask a proxy for loopback,
    too. It may stand in settings that only the agent reads."""
    listed = next((env[name] for name in _NO_PROXY if env.get(name)), "")
    entries = [entry for entry in listed.replace(",", " ").split() if entry != _GATEWAY_HOST]
    return ",".join([*entries, _GATEWAY_HOST])


def route_through_box(env: Mapping[str, str], port: int) -> dict[str, str]:
    """The environment of a process in a network of its own, whose only way out is a proxy on this port."""
    kept = {name: value for name, value in env.items() if not name.lower().endswith("_proxy")}
    way_out = f"http://{_GATEWAY_HOST}:{port}"
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    return kept | dict.fromkeys(names, way_out) | dict.fromkeys(_NO_PROXY, f"{_GATEWAY_HOST},localhost")


def build_container_environment(
    env: Mapping[str, str], *, driver: Driver, run_env: Mapping[str, str], home: str
) -> dict[str, str]:
    """The part of an agent's environment that holds in a container, too: the run's own, the agent's and the locale."""
    own = (*driver.access.variables, *driver.provider.credentials, *driver.provider.base_url_variables, "LC_")
    kept = {
        name: value
        for name, value in env.items()
        if name in _HOLD_ANYWHERE or name.lower().endswith("_proxy") or name.startswith(own)
    }
    return {**kept, "HOME": home, **run_env, "PATH": CONTAINER_PATH}


def build_outer_environment(
    inner: Mapping[str, str], *, sandbox: Sandbox, host_env: Mapping[str, str]
) -> dict[str, str]:
    """The environment of a sandbox's own program, which starts others with `inner`: what it reads for itself is the
    caller's, and what would load a file of the working folder into it is left out.
    """
    if not sandbox.boundary:
        return dict(inner)
    taken = {*sandbox.host_variables, *select_loader_variables(inner)}
    kept = {name: value for name, value in inner.items() if name not in taken}
    theirs = {name: host_env[name] for name in sandbox.host_variables if name in host_env}
    if "PATH" in theirs:
        theirs["PATH"] = helper_path(theirs["PATH"])  # It starts others by that, outside of what it makes.
    return kept | theirs


def select_loader_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Those that a sandbox's own program must not have, and those that it starts may."""
    return {name: value for name, value in env.items() if is_loader_variable(name)}


def _find_secrets(env: Mapping[str, str], credentials: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from find_secrets(env).items()
    yield from ((name, env[name]) for name in credentials if len(env.get(name, "")) >= _SHORTEST_KEY)


def _select_withheld_keys(driver: Driver, kept: Mapping[str, str], *, keys: set[str], login: bool) -> Iterator[str]:
    """The key variables that may not reach the agent: beside a login or another key, one of them might win."""
    for name in driver.provider.credentials:
        same = name in driver.provider.key_aliases and kept.get(name) in keys
        if login or (keys and not same):
            yield name


def _collect_server_values(servers: Iterable[McpServer]) -> Iterator[Mapping[str, str]]:
    """The variables of MCP servers, and as if they were variables: their addresses, what their arguments assign
    and their headers, each word of them, since a scheme or the name of a cookie may stand before what is secret.
    """
    for server in servers:
        yield server.env
        yield {"URL": server.url}
        yield from name_arguments(server.args)
        yield from name_headers(server.headers)


def _words_of(key_from: str) -> list[str]:
    """The words of the command that gives a key, as a shell parts them; of no command none."""
    kind, _, command = key_from.partition(":")
    if kind != "cmd":
        return []
    import shlex  # Start-up time: few keys come from a command.

    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def name_headers(headers: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """The words of those that may be secret, each as a variable that is."""
    for name, value in headers.items():
        if not name.lower().startswith(_PLAIN_HEADERS):
            yield from ({f"{name.upper()}_TOKEN": word} for word in _HEADER_WORDS.split(value))


def name_arguments(arguments: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """What they assign, as variables: `--api-key VALUE`, `--api-key=VALUE`, `API_KEY=VALUE`, `Authorization: Bearer
    VALUE`, and addresses.
    """
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        name, sign, value = argument.partition("=")
        if argument.startswith("-") and not sign:
            value = following
        yield {name.lstrip("-"): value}
        yield {"URL": argument}
        header, colon, said = argument.partition(": ")
        if colon:
            yield {f"{header.upper()}_TOKEN": said.rpartition(" ")[2]}
