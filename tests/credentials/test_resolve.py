"""Which key or login a run would use; every place a key may lie, and what is said when it does not lie there."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null
from keyring.backends.chainer import ChainerBackend
from keyring.core import load_keyring

from inspan.agents import registry
from inspan.agents.driver_cache import agent_summaries
from inspan.contracts.driver import Driver
from inspan.credentials.resolve import Credential, read_login_secrets, resolve_credential
from inspan.errors import BadInput, CredentialsMissing, KeyUnusable
from inspan.protocol.task import Task
from tests.cli_env import list_pids, wait_until

KEY = "sk-given-Qw8Zr5Tn2Lx9Vk4Hd7Pj"
SECRET = "hidden-Zp4Vn8Tc1Yw6"
PRINTED = "printed-Ub7Ke2Rx9Gm4"
LOGINS = {
    "claude": (".claude/.credentials.json", '{"claudeAiOauth": {"accessToken": "sk-ant-oat01-Hf4Lx7Pq2Zt9Wb5N"}}'),
    "codex": (".codex/auth.json", '{"tokens": {"access_token": "eyJhbGciOiJub25lIn0.e30.Hf4Lx7Pq2Zt9Wb5N"}}'),
}
SHORT_S, LONG_S = 0.5, 60.0


@pytest.fixture(params=sorted(LOGINS))
def driver(request: pytest.FixtureRequest) -> Driver:
    return registry.find_driver(request.param)


@pytest.fixture
def codex() -> Driver:
    return registry.find_driver("codex")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}


def a_task(**fields: object) -> Task:
    return Task(prompt="do it", cwd="/", **fields)  # pyright: ignore[reportArgumentType]  fields of a task


def plant_login(driver: Driver, env: dict[str, str]) -> Path:
    path, content = LOGINS[driver.name]
    found = Path(env["HOME"], path)
    found.parent.mkdir(parents=True, exist_ok=True)
    found.write_text(content)
    found.chmod(0o600)
    return found


def expect_refusal(driver: Driver, env: dict[str, str], key_from: str, *, limit_s: float = LONG_S) -> KeyUnusable:
    """The error of a place that gives no key: it tells all three things and no secret."""
    with pytest.raises(KeyUnusable) as caught:
        resolve_credential(a_task(key_from=key_from), driver, env, limit_s=limit_s)
    error = caught.value
    assert error.tried
    assert error.came_back
    assert error.next_step
    assert error.came_back in error.message
    told = f"{error.message} {error.next_step} {error.tried} {error.came_back}"
    assert not [secret for secret in (SECRET, PRINTED) if secret in told]
    return error


# Keys in variables and files.


def test_a_key_from_another_variable_becomes_the_agents_own(driver: Driver, env: dict[str, str]) -> None:
    env |= {"WORK_KEY": f" {KEY}\n", driver.provider.credentials[0]: "sk-of-the-environment"}
    found = resolve_credential(a_task(key_from="env:WORK_KEY"), driver, env)
    assert found == Credential(
        kind="key", description="key from the variable WORK_KEY", key=KEY, variable=driver.provider.credentials[0]
    )


def test_a_variable_that_the_agent_reads_itself_keeps_its_name(env: dict[str, str]) -> None:
    env |= {"CLAUDE_CODE_OAUTH_TOKEN": KEY, "OPENAI_API_KEY": KEY}
    claude = resolve_credential(a_task(key_from="env:CLAUDE_CODE_OAUTH_TOKEN"), registry.find_driver("claude"), env)
    codex = resolve_credential(a_task(key_from="env:OPENAI_API_KEY"), registry.find_driver("codex"), env)
    assert [(found.variable, found.key) for found in (claude, codex)] == [
        ("CLAUDE_CODE_OAUTH_TOKEN", KEY),
        ("CODEX_API_KEY", KEY),
    ]


@pytest.mark.parametrize("content", [KEY, f"{KEY}\n", f"  {KEY}\r\n\n", f"\ufeff{KEY}\n"])
def test_a_key_file_may_end_as_editors_end_files(driver: Driver, env: dict[str, str], content: str) -> None:
    path = Path(env["HOME"], "key")
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    found = resolve_credential(a_task(key_from="file:~/key"), driver, env)
    assert found == Credential(
        kind="key", description="key from the key file ~/key", key=KEY, variable=driver.provider.credentials[0]
    )


def test_a_key_file_that_others_can_read_is_used_with_a_warning(codex: Driver, env: dict[str, str]) -> None:
    path = Path(env["HOME"], "key")
    path.write_text(KEY)
    path.chmod(0o644)
    found = resolve_credential(a_task(key_from=f"file:{path}"), codex, env)
    assert (found.variable, found.key, found.warnings) == (
        "CODEX_API_KEY",
        KEY,
        (f"{path} can be read by others: chmod 600 {path}.",),
    )


def _nothing(path: Path) -> None: ...


def _quiet_pipe(path: Path) -> None:
    os.mkfifo(path)


def _make_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _make_writer(content: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content)

    return write


NOT_ONE_WORD = "what it gives is not one word of printable ASCII"


@pytest.mark.parametrize(
    ("make", "came_back"),
    [
        pytest.param(_nothing, "No such file or directory", id="missing"),
        pytest.param(Path.mkdir, "it is a folder", id="folder"),
        pytest.param(_quiet_pipe, "it is not a regular file", id="pipe"),
        pytest.param(_make_endless, "it is not a regular file", id="device"),
        pytest.param(_make_writer(b""), "it is empty", id="empty"),
        pytest.param(_make_writer(b" \n\t\n"), "it is empty", id="blank"),
        pytest.param(_make_writer(bytes(range(256))), NOT_ONE_WORD, id="binary"),
        pytest.param(_make_writer(f"{SECRET}\n{SECRET}\n".encode()), NOT_ONE_WORD, id="two lines"),
        pytest.param(_make_writer(f"key = {SECRET}".encode()), NOT_ONE_WORD, id="assignment"),
        pytest.param(_make_writer(f"{SECRET}é".encode()), NOT_ONE_WORD, id="accent"),
        pytest.param(_make_writer(SECRET.encode() * 60_000), "it gives more than 64 KiB", id="a megabyte"),
    ],
)
def test_a_file_that_holds_no_key_is_told_without_what_it_holds(
    codex: Driver, env: dict[str, str], make: Callable[[Path], None], came_back: str
) -> None:
    make(Path(env["HOME"], "key"))
    error = expect_refusal(codex, env, "file:~/key")
    assert error.message == f"The key file ~/key gives no key: {came_back}."


def test_a_pipe_that_somebody_holds_open_is_not_waited_for(codex: Driver, env: dict[str, str]) -> None:
    path = Path(env["HOME"], "key")
    os.mkfifo(path)
    held = os.open(path, os.O_RDWR)
    try:
        assert expect_refusal(codex, env, "file:~/key").came_back == "it is not a regular file"
    finally:
        os.close(held)


@pytest.mark.parametrize(("value", "came_back"), [(None, "it is not set"), ("", "it is empty"), (" ", "it is empty")])
def test_a_variable_that_holds_no_key_is_told(
    codex: Driver, env: dict[str, str], value: str | None, came_back: str
) -> None:
    env |= {} if value is None else {"WORK_KEY": value}
    assert expect_refusal(codex, env, "env:WORK_KEY").message == f"The variable WORK_KEY gives no key: {came_back}."


# Keys from commands.


def test_a_command_prints_the_key_and_may_complain_beside_it(driver: Driver, env: dict[str, str]) -> None:
    found = resolve_credential(a_task(key_from=f"cmd:echo 'unlocking…' >&2; printf '{KEY}\\n'"), driver, env)
    assert found == Credential(
        kind="key", description="key from the key command 'echo'", key=KEY, variable=driver.provider.credentials[0]
    )


def test_a_command_gets_the_environment_and_no_input(codex: Driver, env: dict[str, str]) -> None:
    env["VAULT"] = KEY
    found = resolve_credential(a_task(key_from='cmd:test -z "$(cat)" && echo "$VAULT"'), codex, env)
    assert found.key == KEY


@pytest.mark.parametrize(
    ("command", "came_back"),
    [
        pytest.param("echo 'gpg: no secret key.' >&2; exit 3", "exit code 3, and it said: gpg: no secret key", id="no"),
        pytest.param(f"echo {SECRET}; exit 1", "exit code 1, and it said: nothing", id="a key and a failure"),
        pytest.param(f"set -x; echo {PRINTED}; exit 1", "exit code 1, and it said: + echo [REDACTED:", id="traced"),
        pytest.param(
            'echo "token $VAULT_TOKEN is bad" >&2; exit 1',
            "exit code 1, and it said: token [REDACTED:VAULT_TOKEN] is bad",
            id="a known secret",
        ),
        pytest.param(r"printf '\033[2Jbad\n\nluck' >&2; exit 1", "exit code 1, and it said: [2Jbad luck", id="spell"),
        pytest.param("kill -TERM $$", "exit code -15, and it said: nothing", id="killed"),
        pytest.param("/no/such/program", "exit code 127, and it said: ", id="missing"),
        pytest.param("true", "it is empty", id="silent"),
        pytest.param("head -c 300 /dev/urandom; echo", NOT_ONE_WORD, id="garbage"),
        pytest.param(f"echo please unlock {SECRET}", NOT_ONE_WORD, id="a sentence"),
        pytest.param(f"yes {SECRET}", "it prints more than 64 KiB", id="endless"),
        pytest.param("yes complaint >&2 & sleep 1; wait", "it had not ended after 0.5 s", id="endless complaints"),
    ],
)
def test_a_command_that_gives_no_key_is_told_without_what_it_prints(
    codex: Driver, env: dict[str, str], command: str, came_back: str
) -> None:
    env["VAULT_TOKEN"] = SECRET
    limit_s = SHORT_S if "not ended" in came_back else LONG_S
    error = expect_refusal(codex, env, f"cmd:{command}", limit_s=limit_s)
    program = command.split()[0]
    assert error.message.startswith(f"The key command {program!r} gives no key: {came_back}")


def test_what_a_command_was_called_with_is_told_to_nobody(codex: Driver, env: dict[str, str]) -> None:
    assert expect_refusal(codex, env, f"cmd:curl -H {SECRET} file:///none").tried == "reading the key command 'curl'"
    assert expect_refusal(codex, env, f"cmd:TOKEN={SECRET} false").tried == "reading the key command '…'"


def test_a_command_that_hangs_is_ended_with_its_whole_group(codex: Driver, env: dict[str, str], tmp_path: Path) -> None:
    command = f"cmd:echo $$ > {tmp_path}/group; sleep 300 & sleep 300 | cat; wait"
    for limit_s in (2.0, 8.0, 32.0):  # Until it has begun: on a machine that is busy, that takes a while.
        error = expect_refusal(codex, env, command, limit_s=limit_s)
        assert error.came_back == f"it had not ended after {limit_s:g} s"
        assert "by hand" in error.next_step
        if (tmp_path / "group").exists() and (tmp_path / "group").read_text():
            break
    _group_ends(int((tmp_path / "group").read_text()))


def test_what_a_command_leaves_running_is_not_waited_for_and_ended(
    codex: Driver, env: dict[str, str], tmp_path: Path
) -> None:
    started = time.monotonic()
    command = f"cmd:echo $$ > {tmp_path}/group; sleep 300 & echo {KEY}"
    found = resolve_credential(a_task(key_from=command), codex, env, limit_s=LONG_S)
    assert found.key == KEY
    assert time.monotonic() - started < LONG_S / 2
    _group_ends(int((tmp_path / "group").read_text()))


def test_a_daemon_that_keeps_a_commands_output_open_is_not_waited_for(
    codex: Driver, env: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "daemon"
    command = (
        f"cmd:setsid sh -c 'echo $$ > {path}; exec sleep 300' & until test -s {path}; do sleep 0.02; done; echo {KEY}"
    )
    started = time.monotonic()
    try:
        found = resolve_credential(a_task(key_from=command), codex, env, limit_s=LONG_S)
        assert found.key == KEY
        assert time.monotonic() - started < LONG_S / 2
    finally:
        os.kill(int(wait_until(lambda: path.exists() and path.read_text(), "daemon")), 9)


def _group_ends(group: int) -> None:
    wait_until(lambda: not _list_group(group), f"end of the group {group}")


def _list_group(group: int) -> list[int]:
    found: list[int] = []
    for pid in list_pids():
        try:
            state, _, own = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(own) == group and state != "Z":
            found.append(pid)
    return found


# Keys in the keyring.


@pytest.fixture
def use_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[KeyringBackend], None]]:
    """Sets the backend of the keyring for one test; the file backend keeps its file in a folder of the test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    before = keyring.get_keyring()
    yield keyring.set_keyring
    keyring.set_keyring(before)


def file_backend() -> KeyringBackend:
    return load_keyring("keyrings.alt.file.PlaintextKeyring")


def test_a_key_in_the_keyring_is_found_by_service_and_user(
    driver: Driver, env: dict[str, str], use_keyring: Callable[[KeyringBackend], None]
) -> None:
    use_keyring(file_backend())
    keyring.set_password("inspan/work", "me", KEY)
    found = resolve_credential(a_task(key_from="keyring:inspan/work/me"), driver, env)
    words = "key from the keyring entry inspan/work/me"
    assert found == Credential(kind="key", description=words, key=KEY, variable=driver.provider.credentials[0])


def test_a_keyring_of_several_backends_is_asked_like_one(
    codex: Driver, env: dict[str, str], use_keyring: Callable[[KeyringBackend], None]
) -> None:
    class Chain(ChainerBackend):
        backends = (null.Keyring(), file_backend())  # pyright: ignore[reportAssignmentType]  theirs is computed

    use_keyring(file_backend())
    keyring.set_password("inspan", "me", KEY)
    use_keyring(Chain())
    assert resolve_credential(a_task(key_from="keyring:inspan/me"), codex, env).key == KEY


class Odd(KeyringBackend):
    """A backend that does something else instead of answering."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self._act = act

    def get_password(self, service: str, username: str) -> None:
        self._act()

    def set_password(self, service: str, username: str, password: str) -> None: ...


def _raise_locked() -> None:
    raise RuntimeError("the ring is locked\nsecond line")


def _block() -> None:
    time.sleep(20)


@pytest.mark.parametrize(
    ("backend", "came_back"),
    [
        (null.Keyring(), "there is no such entry"),
        (fail.Keyring(), "NoKeyringError: No recommended backend was available"),
        (Odd(_raise_locked), "RuntimeError: the ring is locked"),
        (Odd(_block), "no answer within 0.5 s"),
    ],
    ids=["empty", "none at all", "locked", "waiting"],
)
def test_a_keyring_that_gives_no_key_is_told(
    codex: Driver,
    env: dict[str, str],
    use_keyring: Callable[[KeyringBackend], None],
    backend: KeyringBackend,
    came_back: str,
) -> None:
    use_keyring(backend)
    error = expect_refusal(codex, env, "keyring:inspan/me", limit_s=SHORT_S)
    assert error.message.startswith(f"The keyring entry inspan/me gives no key: {came_back}")
    assert "second line" not in error.message


def test_a_keyring_that_is_not_installed_names_the_extra(
    codex: Driver, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    error = expect_refusal(codex, env, "keyring:inspan/me")
    assert error.came_back == "the package keyring is not installed"
    assert "'inspan[keyring]'" in error.next_step


# Places that are none, and two ways at once.


@pytest.mark.parametrize("place", ["vault:x", "file:", "cmd: ", "env", KEY, f"{KEY}:x", "keyring:me", "keyring:/me"])
def test_a_place_that_is_none_is_refused_without_what_may_be_the_key(
    codex: Driver, env: dict[str, str], place: str
) -> None:
    with pytest.raises(BadInput) as caught:
        resolve_credential(a_task(key_from=place), codex, env)
    assert caught.value.field == "key_from"
    assert caught.value.next_step
    assert KEY not in str(caught.value)


def test_an_agent_without_keys_takes_none(env: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="takes no key"):
        resolve_credential(a_task(key_from="env:HOME"), registry.find_driver("scripted"), env)
    with pytest.raises(BadInput, match="has no login"):
        resolve_credential(a_task(login=True), registry.find_driver("scripted"), env)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"login": True, "key_from": "env:HOME"}, "Use --login or --key-from, not both."),
        ({"login": True, "model_from": "script:x"}, "Use --login or --model-from, not both."),
        ({"key_from": "env:HOME", "model_from": "script:x"}, "Use --key-from or --model-from, not both."),
        ({"login": True, "env": {"CODEX_API_KEY": KEY}}, "Use --login or --env CODEX_API_KEY=…, not both."),
        (
            {"key_from": "env:HOME", "env": {"OPENAI_API_KEY": ""}},
            "Use --key-from or --env OPENAI_API_KEY=…, not both.",
        ),
        ({"login": True, "profile": "clean"}, "Use --profile user with it, or a key in place of the login."),
    ],
)
def test_two_ways_at_once_are_refused(codex: Driver, env: dict[str, str], fields: dict[str, object], says: str) -> None:
    plant_login(codex, env)
    with pytest.raises(BadInput) as caught:
        resolve_credential(a_task(**fields), codex, env)
    assert caught.value.next_step == says
    assert KEY not in str(caught.value)


# What is found where nothing was said.


def test_a_key_wins_over_a_login_and_nothing_at_all_is_told(driver: Driver, env: dict[str, str]) -> None:
    nothing = resolve_credential(a_task(), driver, env)
    plant_login(driver, env)
    login = resolve_credential(a_task(), driver, env)
    env[driver.provider.credentials[0]] = KEY
    key = resolve_credential(a_task(), driver, env)
    assert [nothing, login, key] == [
        Credential(kind="none", description="no key and no login found"),
        Credential(kind="login", description=f"login in ~/{LOGINS[driver.name][0]}"),
        Credential(
            kind="key",
            description=f"key in {driver.provider.credentials[0]}",
            key=KEY,
            variable=driver.provider.credentials[0],
        ),
    ]


def test_a_key_that_the_program_does_not_look_at_is_handed_to_it_unless_there_is_a_login(
    codex: Driver, env: dict[str, str]
) -> None:
    env["OPENAI_API_KEY"] = KEY
    alone = resolve_credential(a_task(), codex, env)
    plant_login(codex, env)
    beside = resolve_credential(a_task(), codex, env)
    assert alone == Credential(kind="key", description="key in OPENAI_API_KEY", key=KEY, variable="CODEX_API_KEY")
    assert beside.kind == "login"


def test_a_key_of_the_task_counts_and_an_emptied_one_does_not(driver: Driver, env: dict[str, str]) -> None:
    name = driver.provider.credentials[0]
    assert resolve_credential(a_task(env={name: KEY}), driver, env).description == f"key in {name}"
    assert resolve_credential(a_task(env={name: ""}), driver, {**env, name: KEY}).kind == "none"


def test_clean_uses_no_login_and_says_what_to_set(driver: Driver, env: dict[str, str]) -> None:
    plant_login(driver, env)
    with pytest.raises(CredentialsMissing) as caught:
        resolve_credential(a_task(profile="clean"), driver, env)
    error = caught.value
    assert all(name in error.message for name in driver.provider.credentials)
    assert (error.tried, error.came_back) == (
        f"looking for {', '.join(driver.provider.credentials)}",
        "none of them is set",
    )
    assert "--key-from" in error.next_step
    assert (
        resolve_credential(a_task(profile="clean"), driver, {**env, driver.provider.credentials[-1]: KEY}).kind == "key"
    )


# Logins.


def test_a_login_that_is_asked_for_wins_over_keys(driver: Driver, env: dict[str, str]) -> None:
    plant_login(driver, env)
    env |= dict.fromkeys(driver.provider.credentials, KEY)
    expected = Credential(kind="login", description=f"login in ~/{LOGINS[driver.name][0]}")
    assert resolve_credential(a_task(login=True), driver, env) == expected


def test_a_login_is_looked_for_where_the_agents_settings_were_moved_to(driver: Driver, env: dict[str, str]) -> None:
    moved = Path(env["HOME"], "elsewhere")
    name = os.path.basename(LOGINS[driver.name][0])
    plant_login(driver, env).parent.rename(moved)
    for found in (
        resolve_credential(a_task(login=True), driver, {**env, driver.state.config_variable: str(moved)}),
        resolve_credential(a_task(login=True, env={driver.state.config_variable: str(moved)}), driver, env),
    ):
        assert found == Credential(kind="login", description=f"login in {moved}/{name}")
    with pytest.raises(CredentialsMissing):
        resolve_credential(a_task(login=True), driver, env)


def test_a_login_that_others_can_read_is_used_with_a_warning(driver: Driver, env: dict[str, str]) -> None:
    plant_login(driver, env).chmod(0o640)
    path = f"~/{LOGINS[driver.name][0]}"
    warnings = resolve_credential(a_task(login=True), driver, env).warnings
    assert warnings == (f"{path} can be read by others: chmod 600 {path}.",)


def _remove_login(path: Path) -> None:
    path.unlink()


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


NO_TOKEN = "there is a file without a token that can be read"


@pytest.mark.parametrize(
    ("spoil", "came_back"),
    [
        pytest.param(_remove_login, "there is no such file", id="missing"),
        pytest.param(_folder, NO_TOKEN, id="folder"),
        pytest.param(_pipe, NO_TOKEN, id="pipe"),
        pytest.param(_make_writer(b""), NO_TOKEN, id="empty"),
        pytest.param(_make_writer(b"{}"), NO_TOKEN, id="logged out"),
        pytest.param(_make_writer(b'{"tokens": {"access_token": null, "expires": 5}}'), NO_TOKEN, id="null"),
        pytest.param(_make_writer(b"\xff\xfe"), NO_TOKEN, id="binary"),
        pytest.param(_make_writer(b"[" * 100_000), NO_TOKEN, id="nested without end"),
        pytest.param(_make_writer(b"[" * 990 + b"]" * 990), NO_TOKEN, id="nested deep"),
    ],
)
def test_without_a_login_that_can_be_read_the_next_step_is_to_log_in(
    driver: Driver, env: dict[str, str], spoil: Callable[[Path], None], came_back: str
) -> None:
    spoil(plant_login(driver, env))
    with pytest.raises(CredentialsMissing) as caught:
        resolve_credential(a_task(login=True), driver, {**env, driver.provider.credentials[0]: KEY})
    error, path = caught.value, f"~/{LOGINS[driver.name][0]}"
    assert error.message == f"No login of {driver.title} in {path}: {came_back}."
    assert error.next_step == f"Log in first: {driver.access.login_hint}."
    assert (error.tried, error.came_back) == (f"looking for a login in {path}", came_back)
    assert resolve_credential(a_task(), driver, env).kind == "none"


def test_the_tokens_of_a_login_are_known_and_its_other_words_are_not(env: dict[str, str]) -> None:
    secrets = {
        "claude": {
            "claudeAiOauth": {
                "accessToken": "sk-ant-oat01-one",
                "refreshToken": "sk-ant-ort01-two",
                "expiresAt": 4102444800000,
                "scopes": ["user:inference", "user:profile"],
                "subscriptionType": "max",
                "rateLimitTier": "default_claude_max_20x",
            },
            "mcpOAuth": {
                "docs|1": {"serverUrl": "https://docs.example.org/mcp/0123456789abcdef", "clientSecret": SECRET}
            },
        },
        "codex": {
            "auth_mode": "chatgpt",
            "OPENAI_API_KEY": None,
            "tokens": {
                "id_token": "eyJh.three",
                "list": ["x", "0123456789abcdef0123456789abcdef"],
                "account_id": "a-1",
            },
            "last_refresh": "2099-01-01T00:00:00.000000Z",
        },
    }
    for name, content in secrets.items():
        plant_login(registry.find_driver(name), env).write_text(json.dumps(content))
    assert dict(read_login_secrets(agent_summaries(env), env)) == {
        "claude.claudeAiOauth.accessToken": "sk-ant-oat01-one",
        "claude.claudeAiOauth.refreshToken": "sk-ant-ort01-two",
        "claude.mcpOAuth.docs|1.clientSecret": SECRET,
        "codex.tokens.id_token": "eyJh.three",
        "codex.tokens.list.1": "0123456789abcdef" * 2,
    }


@pytest.mark.parametrize("value", ["", "  "])
def test_a_key_that_is_set_and_empty_is_said_to_be(value: str) -> None:
    task = Task(prompt="x", cwd="/", agent="claude", profile="clean")
    with pytest.raises(CredentialsMissing, match="ANTHROPIC_API_KEY is set, but empty"):
        resolve_credential(task, registry.find_driver("claude"), {"ANTHROPIC_API_KEY": value})
