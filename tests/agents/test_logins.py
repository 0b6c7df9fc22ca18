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

from tests.cli.refusal import refusal_of
from tests.house import Finished, House, pids, until

from .island import Island
from .provider import Provider

KEY = "sk-given-Qw8Zr5Tn2Lx9Vk4Hd7Pj"
OTHER_KEY = "sk-other-Uy3Gb6Mc1Ws0Fe5Rq8Xa"
WINDOW = 12


def jwt(**claims: object) -> str:
    """A token as providers sign them, with nobody's signature."""
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    return ".".join([*(_encoded(json.dumps(part).encode()) for part in parts), _encoded(b"unsigned-by-anybody")])


def _encoded(data: bytes) -> str:
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
class Way:
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


CLAUDE = Way(
    agent="claude",
    variable="ANTHROPIC_API_KEY",
    path=".claude/.credentials.json",
    login=json.dumps({"claudeAiOauth": {**CLAUDE_TOKENS, "expiresAt": 4102444800000, "scopes": ["user:inference"]}}),
    tokens=tuple(CLAUDE_TOKENS.values()),
    key_header={"x-api-key": KEY},
    login_headers={"authorization": f"Bearer {CLAUDE_TOKENS['accessToken']}"},
)
CODEX = Way(
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
def island() -> Iterator[Island]:
    with Island() as found:
        yield found


@pytest.fixture
def home(tmp_path: Path, binaries: dict[str, str], island: Island) -> Iterator[House]:
    """A house on an island."""
    (tmp_path / "house").mkdir()
    made = House(tmp_path / "house", prefix=island.prefix, binaries=binaries)
    yield made
    made.close()


def settle(house: House, url: str) -> None:
    """What a user has set up to reach a provider at this address, and a key that a run must not take by mistake."""
    house.env |= {
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ANTHROPIC_API_KEY": OTHER_KEY,
        "ANTHROPIC_AUTH_TOKEN": OTHER_KEY,
        "CODEX_API_KEY": OTHER_KEY,
        "OPENAI_API_KEY": OTHER_KEY,
    }
    settings = Path(house.env["HOME"]) / ".codex" / "config.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(CODEX_SETTINGS.format(url=url))


def plant(house: House, way: Way) -> Path:
    """Puts a login where the agent's own program would."""
    path = Path(house.env["HOME"]) / way.path
    path.parent.mkdir(exist_ok=True)
    path.write_text(way.login)
    path.chmod(0o600)
    return path


def start(house: House, way: Way, *more: str) -> Finished:
    return Finished(house, house.inspan("run", "do it", "-a", way.agent, "--profile", "user", *more))


def leaks(house: House, run: Finished, *secrets: str) -> list[tuple[str, str]]:
    """Every place that inspan writes or prints to where a piece of a secret stands."""
    places = {str(path): path.read_bytes() for path in house.state.rglob("*") if path.is_file()}
    places |= {"screen": run.stdout.encode() + run.stderr.encode()}
    pieces = [secret[at : at + WINDOW].encode() for secret in secrets for at in range(len(secret) - WINDOW + 1)]
    return [(name, piece.decode()) for name, held in places.items() for piece in pieces if piece in held]


def looks_at(way: Way, *secrets: str) -> str:
    """A scenario in which the agent's tool prints its login and its environment, and the model says secrets aloud."""
    said = json.dumps(f"I have seen {' and '.join(secrets)}.")
    return f'[[call]]\nrun = "cat ~/{way.path}; env | sort"\n[[call]]\nsay = {said}\n'


KEY_PLACES = ("env", "file", "cmd", "keyring")


def put_key(house: House, place: str) -> str:
    """Puts the key in its place and gives the words for `--key-from`."""
    if place == "env":
        house.env["WORK_KEY"] = KEY
        return "env:WORK_KEY"
    path = Path(house.env["HOME"]) / "key"
    path.write_text(f"{KEY}\n")
    path.chmod(0o600)
    if place != "keyring":
        return {"file": "file:~/key", "cmd": f"cmd:echo unlocked >&2; cat {path}"}[place]
    house.env["PYTHON_KEYRING_BACKEND"] = "keyrings.alt.file.PlaintextKeyring"
    argv = [house.argv()[-3], "-m", "keyring", "set", "inspan/work", "me"]
    subprocess.run(argv, env=house.env, input=KEY, text=True, check=True, capture_output=True)
    return "keyring:inspan/work/me"


@pytest.mark.parametrize("place", KEY_PLACES)
@each_way
def test_a_key_arrives_in_its_header_wins_over_others_and_is_shown_nowhere(
    home: House, island: Island, way: Way, place: str
) -> None:
    with Provider(looks_at(way, KEY), cwd=str(home.work), listener=island.listener) as provider:
        settle(home, provider.url)
        run = start(home, way, "--key-from", put_key(home, place))
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert provider.calls == [way.key_header] * 2
    assert leaks(home, run, KEY, OTHER_KEY) == []
    (printed,) = [event["output"] for event in run.of("tool_completed")]
    named = [line for line in printed.splitlines() if line.startswith(("ANTHROPIC_", "CODEX_", "OPENAI_"))]
    assert [line.partition("=")[0] for line in named if "REDACTED" in line] == [way.variable]
    assert run.stdout.startswith("I have seen [REDACTED:")


@each_way
def test_a_configured_key_command_is_used_as_one_that_was_said(home: House, island: Island, way: Way) -> None:
    config = Path(home.env["HOME"], ".config", "inspan", "config.toml")
    config.parent.mkdir(parents=True)
    put_key(home, "file")
    config.write_text(f"[agents.{way.agent}]\nkey_cmd = 'cat ~/key'\n")
    with Provider(looks_at(way, KEY), cwd=str(home.work), listener=island.listener) as provider:
        settle(home, provider.url)
        run = start(home, way)
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert provider.calls == [way.key_header] * 2
    assert leaks(home, run, KEY, OTHER_KEY) == []


@each_way
def test_a_key_that_the_provider_quotes_is_shown_nowhere(home: House, island: Island, way: Way) -> None:
    told = json.dumps(f"Incorrect API key provided: {KEY}.")
    scenario = f"[[call]]\nfail = {{status = 401, message = {told}}}\nrepeat = 'always'\n"
    with Provider(scenario, cwd=str(home.work), listener=island.listener) as provider:
        settle(home, provider.url)
        run = start(home, way, "--key-from", put_key(home, "file"))
    assert run.verdict == ("failed", "authentication", 4), run.stderr
    assert provider.calls[0] == way.key_header
    assert leaks(home, run, KEY, OTHER_KEY) == []


def test_a_key_is_in_no_environment_but_the_agents_and_in_no_command_line(home: House, island: Island) -> None:
    scenario = "[[call]]\nrun = 'touch begun; sleep 300'\n"
    with Provider(scenario, cwd=str(home.work), listener=island.listener) as provider:
        settle(home, provider.url)
        begun = home.inspan("run", "do it", "-d", "-a", "codex", "--key-from", put_key(home, "file"))
        run_id = begun.stdout.strip()
        until(lambda: (home.work / "begun").exists(), "command of the agent")
        supervisor = home.supervisor(run_id)
        holders = {pid for pid in pids() if KEY.encode() in _read(pid, "environ")}
        told = [pid for pid in pids() if KEY.encode() in _read(pid, "cmdline")]
        below = _descendants(supervisor)
        home.inspan("kill", run_id)
    assert told == []
    assert holders
    assert supervisor not in holders
    assert holders <= below


@each_way
def test_a_login_is_used_where_it_lies_and_left_as_it_was(home: House, island: Island, way: Way) -> None:
    login = plant(home, way)
    before = (login.read_bytes(), login.stat().st_mode, login.stat().st_mtime_ns, login.stat().st_ino)
    with Provider(looks_at(way, *way.tokens), cwd=str(home.work), listener=island.listener) as provider:
        settle(home, provider.url)
        run = start(home, way, "--login")
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert provider.calls == [way.login_headers] * 2
    assert (login.read_bytes(), login.stat().st_mode, login.stat().st_mtime_ns, login.stat().st_ino) == before
    assert leaks(home, run, *way.tokens, OTHER_KEY) == []
    (printed,) = [event["output"] for event in run.of("tool_completed")]
    assert printed.count(f"[REDACTED:{way.agent}.") == len(way.tokens)
    assert way.variable not in printed
    copies = [path for path in home.root.rglob("*") if path.name == login.name and path != login]
    assert copies == []


@each_way
def test_a_login_that_the_provider_quotes_is_shown_nowhere(home: House, island: Island, way: Way) -> None:
    plant(home, way)
    told = json.dumps(f"Token expired: {way.login_headers['authorization']}.")
    scenario = f"[[call]]\nfail = {{status = 400, message = {told}}}\nrepeat = 'always'\n"
    with Provider(scenario, cwd=str(home.work), listener=island.listener) as provider:
        settle(home, provider.url)
        run = start(home, way, "--login")
    assert run.ended["outcome"] == "failed"
    assert "REDACTED" in run.ended["message"]
    assert leaks(home, run, *way.tokens) == []


@each_way
def test_the_login_of_an_agent_is_not_shown_by_another(home: House, island: Island, way: Way) -> None:
    other = CODEX if way is CLAUDE else CLAUDE
    plant(home, other)
    with Provider(looks_at(other, *other.tokens), cwd=str(home.work), listener=island.listener) as provider:
        settle(home, provider.url)
        run = start(home, way, "--key-from", put_key(home, "file"))
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert provider.calls == [way.key_header] * 2
    assert leaks(home, run, *other.tokens, KEY) == []


@each_way
def test_without_a_login_the_next_step_is_to_log_in(house: House, way: Way) -> None:
    house.env[way.variable] = KEY
    refusal = refusal_of(house, "run", "do it", "-a", way.agent, "--login")
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
def test_a_login_with_what_contradicts_it_is_refused(house: House, way: Way, more: tuple[str, ...], says: str) -> None:
    plant(house, way)
    (house.work / "x.toml").write_text("[[call]]\nsay = 'hi'\n")
    refusal = refusal_of(house, "run", "do it", "-a", way.agent, "--login", *more)
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert says in refusal.message


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _descendants(pid: int) -> set[int]:
    parents = {each: int((_read(each, "stat").rpartition(b")")[2].split() or [b"0", b"0"])[1]) for each in pids()}
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid, os.getpid()}
