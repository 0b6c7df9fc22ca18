"""Starting runs from afar: where, with what, and once for each key."""

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from inspan.agents.modules import agent_names, load_driver
from inspan.server.idempotency import MOST_KEYS, CreatedOnce
from inspan.server.problems import Refusal
from inspan.server.roots import is_plain_variable
from tests.cli.scenarios import SAYS_HELLO, WAITS, release_tool
from tests.cli_env import CliEnv, list_holders, wait_until

from .conftest import Serve
from .server_process import Answer, ServerProcess

Begin = Callable[..., Answer]


@pytest.fixture
def scenario(cli_env: CliEnv) -> str:
    """Where the scripted agent's words lie, below the root."""
    path = cli_env.work / "hello.toml"
    path.write_text(SAYS_HELLO)
    return f"script:{path}"


@pytest.fixture
def begin(server: ServerProcess, cli_env: CliEnv, scenario: str) -> Begin:
    """Asks for a run of the scripted agent."""

    def ask(*, key: str = "", **fields: Any) -> Answer:
        task = {"prompt": "do it", "cwd": str(cli_env.work), "agent": "scripted", "model_from": scenario, **fields}
        return server.post("/runs", {"task": task}, headers={"Idempotency-Key": key} if key else {})

    return ask


def count_runs(cli_env: CliEnv) -> int:
    return len(list(cli_env.state.glob("projects/*/*/runs/*/run.json")))


def test_a_run_is_started_and_goes_on_by_itself(begin: Begin, server: ServerProcess, cli_env: CliEnv) -> None:
    answer = begin()
    run_id = answer.json["run_id"]
    assert (answer.status, answer.headers["location"]) == (201, f"/api/v1/runs/{run_id}")
    assert server.stop() == (0, "")
    cli_env.wait_for_end(run_id)
    events = cli_env.events(run_id)
    assert (events[-1]["outcome"], events[0]["profile"]) == ("completed", "clean")


def test_the_profile_of_the_user_has_to_be_asked_for(begin: Begin, cli_env: CliEnv) -> None:
    run_id = begin(profile="user").json["run_id"]
    cli_env.wait_for_end(run_id)
    assert cli_env.events(run_id)[0]["profile"] == "user"


def test_a_task_without_a_folder_works_in_the_first_root(begin: Begin, cli_env: CliEnv) -> None:
    run_id = begin(cwd="").json["run_id"]
    cli_env.wait_for_end(run_id)
    assert cli_env.events(run_id)[0]["cwd"] == os.path.realpath(cli_env.work)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cwd", "{outside}"),
        ("cwd", "{work}/../../outside"),
        ("cwd", "{work}/link"),
        ("cwd", "{work}/link/below"),
        ("cwd", "/"),
        ("cwd", "~"),
        ("extra_dirs", ["{outside}"]),
        ("extra_dirs", ["link"]),
        ("attachments", ["{outside}/secret.txt"]),
        ("attachments", ["link/secret.txt"]),
        ("attachments", ["~/.bashrc"]),
        ("read", ["{outside}"]),
        ("model_from", "script:{outside}/secret.txt"),
        ("model_from", "record:link/secret.txt"),
        ("model_from", "replay:../../outside/secret.txt"),
    ],
)
def test_nothing_outside_of_the_roots_is_reached(
    begin: Begin, cli_env: CliEnv, outside: Path, field: str, value: Any
) -> None:
    (outside / "secret.txt").write_text("secret")
    (outside / "below").mkdir()
    (cli_env.work / "link").symlink_to(outside)

    def fill(text: str) -> str:
        return text.format(outside=outside, work=cli_env.work)

    answer = begin(**{field: [fill(each) for each in value] if isinstance(value, list) else fill(value)})  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    assert (answer.status, answer.code, answer.json["field"]) == (400, "bad_input", f"task.{field}")
    assert "outside of the folders" in answer.json["detail"]
    assert count_runs(cli_env) == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tools", [{"name": "mine"}]),
        ("hooks", ["before_tool"]),
        ("control_groups", ["/sys/fs/cgroup/x"]),
        ("key_from", "file:/etc/passwd"),
        ("base_url", "https://evil.example"),
        ("parent", "20260101-000000000-1"),
        ("continues", "20260101-000000000-1"),
        ("preset", {"like": "scripted", "command": ["/bin/sh"]}),
        ("agent", "acp:/bin/sh -c true"),
        ("watchdog", {"triage": "acp:/bin/sh -c true"}),
        ("env", {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}),
        ("env", {"LD_PRELOAD": "/tmp/x.so"}),
        ("env", {"TASK_OK": "1", "PATH": "/tmp"}),
        ("mcp_servers", {"mine": {"command": "/bin/sh"}}),
        ("mcp_servers", {"mine": {"url": "http://127.0.0.1:9", "env": {"NODE_OPTIONS": "-r x"}}}),
        ("mcp_servers", {"mine": {"url": "http://127.0.0.1:9/${ANTHROPIC_API_KEY}"}}),
        ("mcp_servers", {"mine": {"url": "http://127.0.0.1:9", "headers": {"X": "$GITHUB_TOKEN"}}}),
        ("options", ["--verbose"]),
        ("options", ["-c", "x=/etc/y"]),
        ("options", ["@/etc/passwd"]),
        ("model_from", "script:{node}.toml"),
        ("model_from", "record:{round}.jsonl"),
        ("output_schema", {"$ref": "file:///etc/passwd"}),
        ("output_schema", {"properties": {"a": [{"$ref": "http://127.0.0.1:9/x"}]}}),
    ],
)
def test_what_makes_no_sense_from_afar_is_refused(begin: Begin, cli_env: CliEnv, field: str, value: Any) -> None:
    answer = begin(**{field: value})
    assert (answer.status, answer.code) == (400, "bad_input")
    assert answer.json["field"].removeprefix("task.").partition(".")[0] == field
    assert count_runs(cli_env) == 0


@pytest.mark.parametrize(
    ("arguments", "status"), [((), 400), (("--allow-direct",), 201)], ids=["usual", "where whoever serves says so"]
)
def test_the_servers_key_goes_to_no_agent(
    serve: Serve, cli_env: CliEnv, arguments: tuple[str, ...], status: int
) -> None:
    server = serve(*arguments, variables={"OPENAI_API_KEY": "sk-dummy-0123456789abcdef0123456789"})
    limits = {"timeout_s": 0.1}
    task = {"prompt": "x", "cwd": str(cli_env.work), "agent": "codex", "model_from": "direct", "limits": limits}
    answer = server.post("/runs", {"task": task})
    assert (answer.status, answer.json.get("field", "task.model_from")) == (status, "task.model_from"), answer.body
    assert count_runs(cli_env) == int(status == 201)
    if status == 201:
        cli_env.wait_for_end(answer.json["run_id"])


def test_a_model_source_is_known_as_a_whole(server: ServerProcess, cli_env: CliEnv, outside: Path) -> None:
    (outside / "hello.toml").write_text(SAYS_HELLO)
    task = {
        "prompt": "x",
        "cwd": str(cli_env.work),
        "agent": "scripted",
        "model_from": f"s{{node}}:{outside}/hello.toml",
    }
    blueprint = {"nodes": {"cript": {"kind": "agent", "prompt": "x"}}}
    answer = server.post("/blueprints", {"task": task, "blueprint": blueprint})
    assert (answer.status, answer.json.get("field")) == (400, "task.model_from")
    assert count_runs(cli_env) == 0


def test_no_variable_that_an_agent_or_a_loader_knows_is_taken_from_afar() -> None:
    known = {
        "PATH",
        "HOME",
        "HTTPS_PROXY",
        "SSL_CERT_FILE",
        "GIT_SSH_COMMAND",
        "BASH_ENV",
        "PYTHONPATH",
        "XDG_CONFIG_HOME",
    }
    for name in agent_names():
        driver = load_driver(name)
        access = driver.access
        known |= {*access.variables, *access.override_variables, *access.other_variables, *access.ignored_variables}
        known |= {*access.withheld_credentials, *access.bound_credentials, driver.program_variable}
        known |= {driver.state.config_variable, driver.program.unpack_variable}
        for provider in (driver.provider, *driver.providers):
            known |= {*provider.credentials, *provider.base_url_variables, *provider.key_aliases}
    assert [name for name in known if is_plain_variable(name)] == []
    assert is_plain_variable("TASK_TICKET") and is_plain_variable("TASK_FOLDERS")
    assert not is_plain_variable("TASK_FOLDER")  # It is inspan's own.


def test_a_variable_that_says_nothing_to_programs_reaches_the_run(begin: Begin) -> None:
    assert begin(env={"TASK_TICKET": "17", "CI": "1"}).status == 201


@pytest.mark.parametrize("path", ["/runs", "/loops"])
def test_what_is_started_knows_the_roots_itself(
    server: ServerProcess, cli_env: CliEnv, tmp_path: Path, path: str
) -> None:
    scenario = cli_env.work / "waits.toml"
    scenario.write_text(WAITS)
    task = {"prompt": "do it", "cwd": str(cli_env.work), "agent": "scripted", "model_from": f"script:{scenario}"}
    run_id = server.post(path, {"task": task}).json["run_id"]
    wait_until(lambda: (cli_env.work / "started").exists(), "tool")
    assert list_holders(f"INSPAN_ROOTS={os.path.realpath(cli_env.work)}")
    release_tool(cli_env)
    cli_env.wait_for_end(run_id)


def test_loops_and_blueprints_are_held_to_the_same(server: ServerProcess, cli_env: CliEnv, outside: Path) -> None:
    task = {"prompt": "do it", "cwd": str(outside), "agent": "scripted"}
    inside = {**task, "cwd": str(cli_env.work)}
    node = {"kind": "agent", "prompt": "x", "read": [str(outside)]}
    answers = [
        server.post("/loops", {"task": task}),
        server.post("/blueprints", {"task": task, "blueprint": "review"}),
        server.post("/blueprints", {"task": inside, "blueprint": "../outside/x.toml"}),
        server.post("/blueprints", {"task": inside, "blueprint": {"nodes": {"a": node}}}),
    ]
    assert [(each.status, each.json["field"]) for each in answers] == [
        (400, "task.cwd"),
        (400, "task.cwd"),
        (400, "blueprint"),
        (400, "blueprint.nodes.a.read"),
    ]
    assert count_runs(cli_env) == 0


@pytest.mark.parametrize(
    ("field", "value", "inputs"),
    [
        ("read", ["{{p}}"], {"p": "../../outside"}),
        ("read", ["{{p}}"], {"p": "."}),
        ("agent", "{{p}}", {"p": "acp:/bin/sh"}),
        ("agents", ["codex", "{{p}}"], {"p": "acp:/bin/sh"}),
        ("verify", "acp:/bin/sh", {"p": ""}),
    ],
)
def test_a_blueprint_is_held_to_it_once_its_inputs_are_known(
    server: ServerProcess, cli_env: CliEnv, field: str, value: Any, inputs: dict[str, str]
) -> None:
    blueprint: Any = {"inputs": {"p": {}}, "nodes": {"a": {"kind": "agent", "prompt": "x", field: value}}}
    task = {"prompt": "x", "cwd": str(cli_env.work), "agent": "scripted"}
    answer = server.post("/blueprints", {"task": task, "blueprint": blueprint, "inputs": inputs})
    assert (answer.status, answer.json.get("field")) == (400, f"blueprint.nodes.a.{field}")
    assert count_runs(cli_env) == 0


def test_the_agents_of_ready_blueprints_and_of_loops_are_names(server: ServerProcess, cli_env: CliEnv) -> None:
    task = {"prompt": "x", "cwd": str(cli_env.work), "agent": "scripted"}
    inputs = {"agent": "acp:/bin/sh", "check": "true"}
    answers = [
        server.post("/blueprints", {"task": task, "blueprint": "fix-failing-test", "inputs": inputs}),
        server.post("/loops", {"task": task, "policy": {"verify": "acp:/bin/sh"}}),
        server.post("/loops", {"task": task, "policy": {"agents": ["codex", "acp:/bin/sh"]}}),
    ]
    assert [each.status for each in answers] == [400, 400, 400]
    assert {each.json["detail"].rpartition(": ")[2][:28] for each in answers} == {"it names a program of this m"}
    assert count_runs(cli_env) == 0


def test_a_session_that_worked_elsewhere_is_not_resumed(begin: Begin, cli_env: CliEnv, outside: Path) -> None:
    elsewhere, here = (cli_env.detach("codex", SAYS_HELLO, "--cwd", str(folder)) for folder in (outside, cli_env.work))
    for run_id in (elsewhere, here):
        cli_env.wait_for_end(run_id)
    answer = begin(resume=elsewhere, agent="codex")
    assert (answer.status, answer.code) == (400, "bad_input")
    assert count_runs(cli_env) == 2
    again = begin(resume=here, agent="codex")
    assert again.status == 201, again.body
    cli_env.wait_for_end(again.json["run_id"])


@pytest.mark.parametrize(("method", "path"), [("POST", "/undo"), ("POST", "/apply"), ("DELETE", "")])
def test_the_files_of_a_run_elsewhere_are_not_touched(
    server: ServerProcess, cli_env: CliEnv, outside: Path, method: str, path: str
) -> None:
    link = cli_env.work / "link"
    link.symlink_to(outside)
    for folder in (outside, link):
        run_id = cli_env.detach("scripted", SAYS_HELLO, "--cwd", str(folder))
        cli_env.wait_for_end(run_id)
        answer = server.ask(method, f"/runs/{run_id}{path}", json_body={} if method == "POST" else None)
        assert (answer.status, answer.code, answer.json["field"]) == (403, "outside_of_roots", "run")
    assert count_runs(cli_env) == 2
    assert server.ask(method, f"/runs/none-such{path}", json_body={} if method == "POST" else None).status == 404


def test_the_worktree_of_a_run_here_may_be_removed_with_it(server: ServerProcess, cli_env: CliEnv) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", *identity, *words], cwd=cli_env.work, env=cli_env.env, check=True)
    run_id = cli_env.detach("scripted", SAYS_HELLO, "--sandbox", "worktree")
    cli_env.wait_for_end(run_id)
    answer = server.ask("DELETE", f"/runs/{run_id}")
    assert answer.status == 200, answer.body


def test_a_key_starts_one_run_however_often_it_is_sent(begin: Begin, serve: Serve, cli_env: CliEnv) -> None:
    with ThreadPoolExecutor(6) as pool:
        answers = [each.result() for each in [pool.submit(begin, key="order-1") for _ in range(6)]]
    assert {(each.status, each.body) for each in answers} == {(201, answers[0].body)}
    assert sorted(each.headers["idempotency-replayed"] or "" for each in answers) == ["", *["true"] * 5]
    assert count_runs(cli_env) == 1
    cli_env.wait_for_end(answers[0].json["run_id"])


def test_a_key_outlives_the_server_and_is_shared_by_all_of_a_state_folder(
    serve: Serve, cli_env: CliEnv, scenario: str
) -> None:
    task = {"prompt": "do it", "cwd": str(cli_env.work), "agent": "scripted", "model_from": scenario}
    first, second = serve(), serve()
    headers = {"Idempotency-Key": "order-2"}
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(each.post, "/runs", {"task": task}, headers=headers) for each in (first, second)]
    bodies = {each.result().body for each in asked}
    first.close()
    bodies.add(serve().post("/runs", {"task": task}, headers=headers).body)
    assert len(bodies) == 1
    assert count_runs(cli_env) == 1


def test_a_key_stands_for_one_request(begin: Begin, cli_env: CliEnv) -> None:
    assert begin(key="order-3").status == 201
    answer = begin(key="order-3", prompt="something else")
    assert (answer.status, answer.code) == (422, "key_reused")
    assert begin(key="order-4").status == 201
    assert count_runs(cli_env) == 2


def test_what_was_refused_may_be_tried_again_with_its_key(begin: Begin, cli_env: CliEnv, outside: Path) -> None:
    target = outside / "later"
    answer = begin(key="order-5", cwd=str(cli_env.work / "later"))
    assert answer.status == 400
    (cli_env.work / "later").mkdir()
    assert begin(key="order-5", cwd=str(cli_env.work / "later")).status == 201
    assert not target.exists()


@pytest.mark.parametrize("key", ["a b", "x" * 256, "\xe9"])
def test_a_key_that_is_none_is_refused(begin: Begin, key: str) -> None:
    answer = begin(key=key)
    assert (answer.status, answer.json["field"]) == (400, "Idempotency-Key")


@pytest.mark.parametrize("keys", [[""], ["order-6", "order-7"], ["order-6", ""]])
def test_a_key_that_is_empty_or_one_of_several_starts_nothing(
    server: ServerProcess, cli_env: CliEnv, keys: list[str]
) -> None:
    connection, body = server.connect(), json.dumps({"task": {"prompt": "do it", "cwd": str(cli_env.work)}}).encode()
    connection.putrequest("POST", "/api/v1/runs")
    given = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    for name, value in [
        *given.items(),
        ("Content-Length", str(len(body))),
        *(("Idempotency-Key", key) for key in keys),
    ]:
        connection.putheader(name, value)
    connection.endheaders(body)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    assert (response.status, answer["field"]) == (400, "Idempotency-Key")
    assert count_runs(cli_env) == 0


def write_keys(cli_env: CliEnv, *, count: int, old: int = 0) -> Path:
    """Keys that were used before, of which so many are too old."""
    folder = cli_env.state / "server" / "keys"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = folder / f"{number:064d}.json"
        path.write_text('{"body":"x","answer":"y"}')
        if number < old:
            os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    return folder


def test_keys_do_not_pile_up(begin: Begin, cli_env: CliEnv) -> None:
    folder = write_keys(cli_env, count=60, old=50)
    assert begin(key="k").status == 201
    assert len(list(folder.glob("*.json"))) == 11
    assert not (folder / f"{0:064d}.json").exists()


def test_a_key_is_kept_however_many_come_after_it(begin: Begin, cli_env: CliEnv) -> None:
    first = begin(key="order-7")
    write_keys(cli_env, count=1500)
    assert begin(key="order-8").status == 201
    assert begin(key="order-7").body == first.body
    assert count_runs(cli_env) == 2


def test_keys_beyond_all_measure_are_refused(cli_env: CliEnv) -> None:
    folder, keys = write_keys(cli_env, count=MOST_KEYS), CreatedOnce(str(cli_env.state))
    with pytest.raises(Refusal) as refused:
        keys.create("runs.start", "k", b"{}", lambda: b"{}")
    assert (refused.value.status, refused.value.code) == (503, "too_many_keys")
    (folder / f"{0:064d}.json").unlink()
    assert keys.create("runs.start", "k", b"{}", lambda: b"{}").is_replay is False


@pytest.mark.parametrize("damaged", ["", "{", '{"answer": "x"}'])
def test_a_key_that_cannot_be_read_starts_nothing_again(begin: Begin, cli_env: CliEnv, damaged: str) -> None:
    assert begin(key="order-9").status == 201
    (path,) = (cli_env.state / "server" / "keys").glob("*.json")
    path.write_text(damaged)
    answer = begin(key="order-9")
    assert (answer.status, answer.code) == (409, "key_unfinished")
    assert count_runs(cli_env) == 1


def leave_unfinished(cli_env: CliEnv, key: str) -> Path:
    """The key as a server leaves it that dies before it has answered."""
    name = hashlib.sha256(f"runs.start\n{key}".encode()).hexdigest()
    path = cli_env.state / "server" / "keys" / f"{name}.json"
    path.write_text(path.read_text().partition(',"answer"')[0] + "}")
    return path


def test_a_server_that_died_over_a_request_does_not_guess(cli_env: CliEnv, begin: Begin) -> None:
    started = begin(key="order-6")
    path = leave_unfinished(cli_env, "order-6")
    answer = begin(key="order-6")
    assert (answer.status, answer.code) == (409, "key_unfinished")
    assert started.json["run_id"] in answer.json["detail"]
    path.write_text(path.read_text().partition(',"pid"')[0] + "}")
    assert "Nobody knows" in begin(key="order-6").json["detail"]
    assert count_runs(cli_env) == 1


def test_a_server_that_died_before_it_started_anything_is_done_again_under_the_key(
    cli_env: CliEnv, begin: Begin
) -> None:
    first = begin(key="order-10").json["run_id"]
    cli_env.wait_for_end(first)
    leave_unfinished(cli_env, "order-10")
    assert begin(key="order-11").status == 201  # The same server has started it since, and answered.
    assert cli_env.inspan("rm", first).returncode == 0
    again = begin(key="order-10")
    assert again.status == 201, again.body
    assert begin(key="order-10").body == again.body
    assert count_runs(cli_env) == 2


@pytest.mark.parametrize("delay_s", [0.005, 0.03])
def test_a_key_outlives_a_server_that_is_killed_over_it(
    serve: Serve, cli_env: CliEnv, scenario: str, delay_s: float
) -> None:
    task = {"prompt": "do it", "cwd": str(cli_env.work), "agent": "scripted", "model_from": scenario}
    first, second = serve(), serve()
    headers = {"Idempotency-Key": "order-12"}
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(first.post, "/runs", {"task": task}, headers=headers)
        time.sleep(0.015)  # Wherever that is: what is promised holds at every moment.
        first.process.kill()
        first.wait()
        asked.exception()
    answer = second.post("/runs", {"task": task}, headers=headers)
    assert answer.status == 201 or answer.code == "key_unfinished"
    (run_id,) = [each["run_id"] for each in second.get("/runs").json["runs"]]
    assert run_id in answer.body.decode()
