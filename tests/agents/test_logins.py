"""Keys and logins with the real agents: which one arrives at the provider, in which header, and where it must not be.

Everything runs in a network that has only loopback. What stands here as a login was made up: that a provider takes a
real one, and that the agent renews it, only a real account can show.
"""

import json
import os
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.refusal import expect_refusal
from tests.cli_env import CliEnv, FinishedRun, list_pids, wait_until

from .netns import NetworkNamespace
from .provider import Provider

KEY = "sk-given-Qw8Zr5Tn2Lx9Vk4Hd7Pj"
OTHER_KEY = "sk-other-Uy3Gb6Mc1Ws0Fe5Rq8Xa"
WINDOW = 12


def jwt(**claims: object) -> str:
    """A token as providers sign them, with nobody's signature."""
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    return ".".join([*(_encode(json.dumps(part).encode()) for part in parts), _encode(b"unsigned-by-anybody")])


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


_ACCOUNT = {"chatgpt_account_id": "account-1", "chatgpt_plan_type": "pro"}
_CLAIMS = {"exp": 4102444800, "email": "someone@example.org", "https://api.openai.com/auth": _ACCOUNT}
CODEX_TOKENS = {
    "id_token": jwt(**_CLAIMS, kind="id"),
    "access_token": jwt(**_CLAIMS, kind="access"),
    "refresh_token": "rt_Jd6Ws1Bv8Kz3Ym0Qc5Xn9Tf2",
}
CLAUDE_TOKENS = {
    "accessToken": "sk-ant-oat01-Hf4Lx7Pq2Zt9Wb5Nk0Rs3Vd8Gm6Jy1Cu",
    "refreshToken": "sk-ant-ort01-Ea5Xi8Oz1Ku4Tn7Qh2Wf9Br6Ym3Dl0Pv",
}


@dataclass(frozen=True, kw_only=True)
class AgentLogin:
    """An agent: its login file, the tokens in it, and the headers by which it names itself with a key or a login."""

    agent: str
    variable: str
    path: str
    login: str
    tokens: tuple[str, ...]
    key_header: dict[str, str]
    login_headers: dict[str, str]

    def __str__(self) -> str:
        return self.agent


CLAUDE = AgentLogin(
    agent="claude",
    variable="ANTHROPIC_API_KEY",
    path=".claude/.credentials.json",
    login=json.dumps({"claudeAiOauth": {**CLAUDE_TOKENS, "expiresAt": 4102444800000, "scopes": ["user:inference"]}}),
    tokens=tuple(CLAUDE_TOKENS.values()),
    key_header={"x-api-key": KEY},
    login_headers={"authorization": f"Bearer {CLAUDE_TOKENS['accessToken']}"},
)
CODEX = AgentLogin(
    agent="codex",
    variable="CODEX_API_KEY",
    path=".codex/auth.json",
    login=json.dumps(
        {
            "auth_mode": "chatgpt",
            "OPENAI_API_KEY": None,
            "tokens": {**CODEX_TOKENS, "account_id": "account-1"},
            "last_refresh": "2099-01-01T00:00:00.000000Z",
        },
        indent=2,
    ),
    tokens=tuple(CODEX_TOKENS.values()),
    key_header={"authorization": f"Bearer {KEY}"},
    login_headers={"authorization": f"Bearer {CODEX_TOKENS['access_token']}", "chatgpt-account-id": "account-1"},
)
each_way = pytest.mark.parametrize("way", [CLAUDE, CODEX], ids=str)
CODEX_SETTINGS = """
model_provider = "own"
check_for_update_on_startup = false
chatgpt_base_url = "{url}/backend-api/"
[analytics]
enabled = false
[features]
plugins = false
[model_providers.own]
name = "own"
base_url = "{url}/v1"
wire_api = "responses"
requires_openai_auth = true
request_max_retries = 0
stream_max_retries = 0
"""


@pytest.fixture
def netns() -> Iterator[NetworkNamespace]:
    with NetworkNamespace() as found:
        yield found


@pytest.fixture
def netns_env(tmp_path: Path, binaries: dict[str, str], netns: NetworkNamespace) -> Iterator[CliEnv]:
    """A house on an island."""
    (tmp_path / "house").mkdir()
    made = CliEnv(tmp_path / "house", prefix=netns.prefix, binaries=binaries)
    yield made
    made.close()


def set_up_provider(cli_env: CliEnv, url: str) -> None:
    """What a user has set up to reach a provider at this address, and a key that a run must not take by mistake."""
    cli_env.env |= {
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ANTHROPIC_API_KEY": OTHER_KEY,
        "ANTHROPIC_AUTH_TOKEN": OTHER_KEY,
        "CODEX_API_KEY": OTHER_KEY,
        "OPENAI_API_KEY": OTHER_KEY,
    }
    settings = Path(cli_env.env["HOME"]) / ".codex" / "config.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(CODEX_SETTINGS.format(url=url))


def plant_login(cli_env: CliEnv, way: AgentLogin) -> Path:
    """Puts a login where the agent's own program would."""
    path = Path(cli_env.env["HOME"]) / way.path
    path.parent.mkdir(exist_ok=True)
    path.write_text(way.login)
    path.chmod(0o600)
    return path


def start(cli_env: CliEnv, way: AgentLogin, *more: str) -> FinishedRun:
    return FinishedRun(cli_env, cli_env.inspan("run", "do it", "-a", way.agent, "--profile", "user", *more))


def find_leaks(cli_env: CliEnv, run: FinishedRun, *secrets: str) -> list[tuple[str, str]]:
    """Every place that inspan writes or prints to where a piece of a secret stands."""
    places = {str(path): path.read_bytes() for path in cli_env.state.rglob("*") if path.is_file()}
    places |= {"screen": run.stdout.encode() + run.stderr.encode()}
    pieces = [secret[at : at + WINDOW].encode() for secret in secrets for at in range(len(secret) - WINDOW + 1)]
    return [(name, piece.decode()) for name, held in places.items() for piece in pieces if piece in held]


def build_leaking_scenario(way: AgentLogin, *secrets: str) -> str:
    """A scenario in which the agent's tool prints its login and its environment, and the model says secrets aloud."""
    said = json.dumps(f"I have seen {' and '.join(secrets)}.")
    return f'[[call]]\nrun = "cat ~/{way.path}; env | sort"\n[[call]]\nsay = {said}\n'


KEY_PLACES = ("env", "file", "cmd", "keyring")


def put_key(cli_env: CliEnv, place: str) -> str:
    """Puts the key in its place and gives the words for `--key-from`."""
    if place == "env":
        cli_env.env["WORK_KEY"] = KEY
        return "env:WORK_KEY"
    path = Path(cli_env.env["HOME"]) / "key"
    path.write_text(f"{KEY}\n")
    path.chmod(0o600)
    if place != "keyring":
        return {"file": "file:~/key", "cmd": f"cmd:echo unlocked >&2; cat {path}"}[place]
    cli_env.env["PYTHON_KEYRING_BACKEND"] = "keyrings.alt.file.PlaintextKeyring"
    argv = [cli_env.argv()[-3], "-m", "keyring", "set", "inspan/work", "me"]
    subprocess.run(argv, env=cli_env.env, input=KEY, text=True, check=True, capture_output=True)
    return "keyring:inspan/work/me"


@pytest.mark.parametrize("place", KEY_PLACES)
@each_way
def test_a_key_arrives_in_its_header_wins_over_others_and_is_shown_nowhere(
    netns_env: CliEnv, netns: NetworkNamespace, way: AgentLogin, place: str
) -> None:
    with Provider(build_leaking_scenario(way, KEY), cwd=str(netns_env.work), listener=netns.listener) as provider:
        set_up_provider(netns_env, provider.url)
        run = start(netns_env, way, "--key-from", put_key(netns_env, place))
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert provider.calls == [way.key_header] * 2
    assert find_leaks(netns_env, run, KEY, OTHER_KEY) == []
    (printed,) = [event["output"] for event in run.select_events("tool_completed")]
    named = [line for line in printed.splitlines() if line.startswith(("ANTHROPIC_", "CODEX_", "OPENAI_"))]
    assert [line.partition("=")[0] for line in named if "REDACTED" in line] == [way.variable]
    # The gateway masks its key before the agent reads the answer; what came by the agent's own way is redacted.
    (started,) = run.select_events("run_started")
    hidden = "[REDACTED:" if started["model_from"] == "direct" else "*" * len(KEY)
    assert run.stdout.startswith(f"I have seen {hidden}")


@each_way
def test_a_configured_key_command_is_used_as_one_that_was_said(
    netns_env: CliEnv, netns: NetworkNamespace, way: AgentLogin
) -> None:
    config = Path(netns_env.env["HOME"], ".config", "inspan", "config.toml")
    config.parent.mkdir(parents=True)
    put_key(netns_env, "file")
    config.write_text(f"[agents.{way.agent}]\nkey_cmd = 'cat ~/key'\n")
    with Provider(build_leaking_scenario(way, KEY), cwd=str(netns_env.work), listener=netns.listener) as provider:
        set_up_provider(netns_env, provider.url)
        run = start(netns_env, way)
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert provider.calls == [way.key_header] * 2
    assert find_leaks(netns_env, run, KEY, OTHER_KEY) == []


@each_way
def test_a_key_that_the_provider_quotes_is_shown_nowhere(
    netns_env: CliEnv, netns: NetworkNamespace, way: AgentLogin
) -> None:
    told = json.dumps(f"Incorrect API key provided: {KEY}.")
    scenario = f"[[call]]\nfail = {{status = 401, message = {told}}}\nrepeat = 'always'\n"
    with Provider(scenario, cwd=str(netns_env.work), listener=netns.listener) as provider:
        set_up_provider(netns_env, provider.url)
        run = start(netns_env, way, "--key-from", put_key(netns_env, "file"))
    assert run.verdict == ("failed", "authentication", 4), run.stderr
    assert provider.calls[0] == way.key_header
    assert find_leaks(netns_env, run, KEY, OTHER_KEY) == []


def test_a_key_is_in_no_environment_but_the_agents_and_in_no_command_line(
    netns_env: CliEnv, netns: NetworkNamespace
) -> None:
    scenario = "[[call]]\nrun = 'touch begun; sleep 300'\n"
    with Provider(scenario, cwd=str(netns_env.work), listener=netns.listener) as provider:
        set_up_provider(netns_env, provider.url)
        begun = netns_env.inspan("run", "do it", "-d", "-a", "codex", "--key-from", put_key(netns_env, "file"))
        run_id = begun.stdout.strip()
        wait_until(lambda: (netns_env.work / "begun").exists(), "command of the agent")
        supervisor = netns_env.supervisor(run_id)

        def only_below() -> bool:
            """Whether all that have the key are below the supervisor; the agent's own helpers come and go."""
            # Another test may use the same key at the same time, elsewhere.
            ours = [pid for pid in list_pids() if str(netns_env.root).encode() in _read(pid, "environ")]
            holders = {pid for pid in ours if KEY.encode() in _read(pid, "environ")}
            assert supervisor in set(ours) - holders
            assert [pid for pid in ours if KEY.encode() in _read(pid, "cmdline")] == []
            return bool(holders) and holders <= _descendants(supervisor)

        wait_until(only_below, "a key in no environment but those below the supervisor")
        netns_env.inspan("kill", run_id)


@each_way
def test_a_login_is_used_where_it_lies_and_left_as_it_was(
    netns_env: CliEnv, netns: NetworkNamespace, way: AgentLogin
) -> None:
    login = plant_login(netns_env, way)
    before = (login.read_bytes(), login.stat().st_mode, login.stat().st_mtime_ns, login.stat().st_ino)
    with Provider(
        build_leaking_scenario(way, *way.tokens), cwd=str(netns_env.work), listener=netns.listener
    ) as provider:
        set_up_provider(netns_env, provider.url)
        run = start(netns_env, way, "--login")
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert provider.calls == [way.login_headers] * 2
    assert (login.read_bytes(), login.stat().st_mode, login.stat().st_mtime_ns, login.stat().st_ino) == before
    assert find_leaks(netns_env, run, *way.tokens, OTHER_KEY) == []
    (printed,) = [event["output"] for event in run.select_events("tool_completed")]
    assert printed.count(f"[REDACTED:{way.agent}.") == len(way.tokens)
    assert way.variable not in printed
    copies = [path for path in netns_env.root.rglob("*") if path.name == login.name and path != login]
    assert copies == []


@each_way
def test_a_login_that_the_provider_quotes_is_shown_nowhere(
    netns_env: CliEnv, netns: NetworkNamespace, way: AgentLogin
) -> None:
    plant_login(netns_env, way)
    told = json.dumps(f"Token expired: {way.login_headers['authorization']}.")
    scenario = f"[[call]]\nfail = {{status = 400, message = {told}}}\nrepeat = 'always'\n"
    with Provider(scenario, cwd=str(netns_env.work), listener=netns.listener) as provider:
        set_up_provider(netns_env, provider.url)
        run = start(netns_env, way, "--login")
    assert run.ended["outcome"] == "failed"
    assert "REDACTED" in run.ended["message"]
    assert find_leaks(netns_env, run, *way.tokens) == []


@each_way
def test_the_login_of_an_agent_is_not_shown_by_another(
    netns_env: CliEnv, netns: NetworkNamespace, way: AgentLogin
) -> None:
    other = CODEX if way is CLAUDE else CLAUDE
    plant_login(netns_env, other)
    with Provider(
        build_leaking_scenario(other, *other.tokens), cwd=str(netns_env.work), listener=netns.listener
    ) as provider:
        set_up_provider(netns_env, provider.url)
        run = start(netns_env, way, "--key-from", put_key(netns_env, "file"))
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert provider.calls == [way.key_header] * 2
    assert find_leaks(netns_env, run, *other.tokens, KEY) == []


@each_way
def test_without_a_login_the_next_step_is_to_log_in(cli_env: CliEnv, way: AgentLogin) -> None:
    cli_env.env[way.variable] = KEY
    refusal = expect_refusal(cli_env, "run", "do it", "-a", way.agent, "--login")
    assert (refusal.exit_code, refusal.code) == (4, "credentials_missing")
    assert f"~/{way.path}: there is no such file" in refusal.message
    assert refusal.next.startswith("Log in first: ")


@each_way
@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--profile", "clean"), "the profile clean does not look there"),
        (("--key-from", "env:HOME"), "a key is given too"),
        (("--model-from", "script:x.toml"), "the model is scripted"),
    ],
)
def test_a_login_with_what_contradicts_it_is_refused(
    cli_env: CliEnv, way: AgentLogin, more: tuple[str, ...], says: str
) -> None:
    plant_login(cli_env, way)
    (cli_env.work / "x.toml").write_text("[[call]]\nsay = 'hi'\n")
    refusal = expect_refusal(cli_env, "run", "do it", "-a", way.agent, "--login", *more)
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert says in refusal.message


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _descendants(pid: int) -> set[int]:
    parents = {each: int((_read(each, "stat").rpartition(b")")[2].split() or [b"0", b"0"])[1]) for each in list_pids()}
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid, os.getpid()}
