"""Secrets that an agent gets to see or to say stand in no file of the run and in nothing that is printed."""

import json
import os
import re
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from inspan.testing import tool_server
from tests.cli_env import CliEnv, FinishedRun

from .gateway_runs import KEY, KEY_HEADER, collect_output, find_leaks, make_provider, run_live
from .python_program import run_in_python
from .run_checks import DONE, End, check_end
from .styles import CLAUDE, CODE_MODE, PER_CALL, Style, each_agent, each_style

IN_ENVIRONMENT = {
    "GITHUB_TOKEN": "ghp_Zq7Xw2Lk9Vb4Nf1Ts8Rj3Md6Hc5Gp0Ya",
    "DB_PASSWORD": "x9\"Kd'q2\\Wv/7&<Tz>\n5Lr é%+ Jm8#",
    "ANTHROPIC_API_KEY": "sk-ant-api03-Bn4Qe8Uo2Ix6Cs0Af",
    "OPENAI_API_KEY": "sk-proj-Wm3Dk7Ty1Gz5Ph9Ev",
}
BY_OPTION = {"SERVICE_TOKEN": "svc-Rt6Yh2Jn8Kl4Xc0Vb", "SIGNING_KEY": "Hu5'Fo\"9\\Lp1\t3Zs7Qa&Ew"}
PLANTED = {**IN_ENVIRONMENT, **BY_OPTION}
OPTIONS = [word for name, value in BY_OPTION.items() for word in ("--env", f"{name}={value}")]
RUN_TOKEN = {"claude": "ANTHROPIC_API_KEY", "codex": "INSPAN_RUN_TOKEN"}
SAME_NAME = {
    "first": "srv-Ja4Wq9Zt3Kx6Lm1Vb5Ny",
    "second": "srv-Ko7Pe2Xd8Hs0Rf4Gu6Tc",
    "third": "srv-Mi1Bn5Qy9Ve3Sl7Oj2Dz",
}
SERVERS: dict[str, dict[str, Any]] = {
    name: {"command": os.path.realpath(sys.executable), "args": ["-IS", tool_server.__file__, "/dev/null", "works"]}
    | {"env": {"API_KEY": key}}
    for name, key in SAME_NAME.items()
}
TASK_KEY = "task-Cw6Uh0Ly8Nb2Xk4Rv9Ap"
PEM_LINES = [b64encode(Random(number).randbytes(48)).decode() for number in range(5)]
# So much of a secret, in any spelling, is a leak: what is left of one that was cut in two would be longer.
WINDOW = 9
INVALID = End(outcome="failed", reason="unknown", code=1)
SCRIPT = End(outcome="failed", reason="script", code=1)


def list_spellings(value: str) -> dict[str, str]:
    """Every spelling in which a tool may print the secret, and the part of it that is the secret's alone."""
    raw, escaped = value.encode(), json.dumps(value)[1:-1]
    quoted = quote(value, safe="")
    whole = [value, escaped, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(escaped)[1:-1]]
    whole += [raw.hex(), raw.hex().upper(), quoted, quote_plus(value), re.sub("%..", _lower, quoted)]
    # The last characters of base64 also hold bits of what follows.
    encoded = {text.decode(): text[:-4].decode() for text in (b64encode(raw), urlsafe_b64encode(raw))}
    login = b64encode(b"x-access-token:" + raw).decode()
    return {**dict(zip(whole, whole, strict=True)), **encoded, login: login[20:-4]}


def _lower(match: re.Match[str]) -> str:
    return match[0].lower()


@each_style
def test_planted_secrets_stand_in_no_output(cli_env: CliEnv, style: Style) -> None:
    (cli_env.work / "spelled.txt").write_text(
        "\n".join(text for value in PLANTED.values() for text in list_spellings(value))
    )
    run = _run(cli_env, style, _build_leaking_scenario(style), "--partial")
    check_end(cli_env, run.run_id, end=DONE, usage=PER_CALL + PER_CALL + PER_CALL + PER_CALL)
    token = (cli_env.work / "token.txt").read_text().strip()
    leaks = _find_leaks(cli_env, run, {**PLANTED, "RUN_TOKEN": token})
    assert leaks == []
    log = (cli_env.folder() / "events.jsonl").read_text()
    assert [name for name in (*PLANTED, "RUN_TOKEN") if f"[REDACTED:{name}]" not in log] == []
    assert "[REDACTED:GITHUB_TOKEN]" in (cli_env.folder() / "stderr").read_text()
    assert "[REDACTED:GITHUB_TOKEN]" in run.stdout


def test_a_secret_in_pieces_is_redacted_in_pieces(cli_env: CliEnv) -> None:
    pieces = [IN_ENVIRONMENT["GITHUB_TOKEN"][start : start + 3] for start in range(0, 36, 3)]
    scenario = f"[[call]]\nsay = {json.dumps(['The key is ', *pieces, ', well kept.'])}\n"
    run = _run(cli_env, CLAUDE, scenario, "--partial")
    check_end(cli_env, run.run_id, end=DONE, usage=PER_CALL)
    deltas = [event["text"] for event in run.select_events("text_delta")]
    assert len(deltas) > 1
    assert "".join(deltas) == "The key is [REDACTED:GITHUB_TOKEN], well kept."
    assert _find_leaks(cli_env, run, PLANTED) == []


@each_agent
def test_secrets_in_the_words_of_a_failing_model_are_redacted(cli_env: CliEnv, style: Style) -> None:
    told = json.dumps(f"No such key: {' '.join(PLANTED.values())}")
    run = _run(cli_env, style, f"[[call]]\nfail = {{status = 400, message = {told}}}\nrepeat = 'always'\n")
    ended = check_end(cli_env, run.run_id, end=INVALID)
    assert "[REDACTED:GITHUB_TOKEN]" in ended.message
    assert _find_leaks(cli_env, run, PLANTED) == []


@pytest.mark.parametrize("before", [0, 150, 171, 185])
def test_secrets_in_a_complaint_about_the_script_are_redacted(cli_env: CliEnv, before: int) -> None:
    # A complaint quotes 200 characters: the end must not cut a secret so that the rest is not found any more.
    prompt = "x" * before + "".join(PLANTED.values())
    run = _run(cli_env, CODE_MODE, '[[call]]\nexpect = "something else"\nsay = "no"\n', prompt=prompt)
    check_end(cli_env, run.run_id, end=SCRIPT)
    assert _find_leaks(cli_env, run, PLANTED) == []


def test_a_clean_run_hands_on_no_secret_of_its_parent(cli_env: CliEnv) -> None:
    scenario = "[[call]]\nrun = 'env > env.txt'\n[[call]]\nsay = 'Done.'\n"
    run = _run(cli_env, CODE_MODE, scenario)
    check_end(cli_env, run.run_id, end=DONE, usage=PER_CALL + PER_CALL)
    given = (cli_env.work / "env.txt").read_text()
    assert [name for name, value in IN_ENVIRONMENT.items() if value in given] == []
    assert [name for name, value in BY_OPTION.items() if value not in given] == []


def test_a_run_with_the_users_settings_gets_secrets_and_prints_none(cli_env: CliEnv) -> None:
    scenario = """
        [[call]]
        run = "test -n \\"$GITHUB_TOKEN$DB_PASSWORD\\" && printenv && printenv GITHUB_TOKEN | base64 -w0"
        [[call]]
        say = "Done."
    """
    quiet = ("--env", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
    run = _run(cli_env, CLAUDE, scenario, "--profile", "user", *quiet)
    check_end(cli_env, run.run_id, end=DONE, usage=PER_CALL + PER_CALL)
    [printed] = [event["output"] for event in run.select_events("tool_completed")]
    assert "GITHUB_TOKEN=[REDACTED:GITHUB_TOKEN]" in printed
    assert "DB_PASSWORD=[REDACTED:DB_PASSWORD]" in printed
    assert _find_leaks(cli_env, run, PLANTED) == []


@each_agent
def test_secrets_of_servers_that_share_a_name_are_all_kept(cli_env: CliEnv, style: Style) -> None:
    _configure(cli_env, SERVERS)
    every = " and ".join(SAME_NAME.values())
    shown = "cat spelled.txt; printenv; cat spelled.txt > /proc/$PPID/fd/2"
    (cli_env.work / "spelled.txt").write_text(
        "\n".join(text for value in SAME_NAME.values() for text in list_spellings(value))
    )
    scenario = f"[[call]]\nrun = {json.dumps(shown)}\n[[call]]\nthink = '{every}'\nsay = '{every}'\n"
    run = _run(cli_env, style, scenario, "--partial", prompt=f"Use {every}")
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert _find_leaks(cli_env, run, SAME_NAME) == []
    assert set(json.loads((cli_env.folder() / "run.json").read_text())["task"]["mcp_servers"]) == set(SAME_NAME)
    told = cli_env.inspan("transcript")
    assert [name for name, value in SAME_NAME.items() if value in told.stdout + told.stderr] == []
    assert "[REDACTED:API_KEY]" in told.stdout


@each_agent
def test_a_program_keeps_secrets_of_servers_that_share_a_name(cli_env: CliEnv, style: Style) -> None:
    every = " and ".join(SAME_NAME.values())
    servers = {name: {**server, "env": dict(server["env"])} for name, server in SERVERS.items()}
    scenario = f"[[call]]\nrun = 'printenv'\n[[call]]\nsay = '{every}'\n"
    result = run_in_python(cli_env, style.agent, "exec", scenario, mcp_servers=servers, env={"API_KEY": TASK_KEY})
    assert (result["outcome"], result["reason"]) == ("completed", "done"), result["error"]
    secrets = {**SAME_NAME, "task": TASK_KEY}
    held = {path: path.read_bytes() for path in _files(cli_env)}
    pairs = [(name, path) for name in secrets for path in held]
    assert [(name, path) for name, path in pairs if secrets[name].encode() in held[path]] == []
    assert held[cli_env.folder() / "run.json"].count(b"[REDACTED:API_KEY]") == len(secrets)


@pytest.mark.parametrize("how", ["lines", "escaped", "alone"])
def test_a_private_key_is_kept_line_by_line(cli_env: CliEnv, how: str) -> None:
    ends = {"lines": "\r\n", "escaped": "\\n", "alone": "\n\n... and then:\n"}[how]
    (cli_env.work / "key.txt").write_bytes(ends.join(PEM_LINES).encode())
    scenario = "[[call]]\nrun = 'cat key.txt'\n[[call]]\nsay = 'Done.'\n"
    pem = "\n".join(["-----BEGIN PRIVATE KEY-----", *PEM_LINES, "-----END PRIVATE KEY-----"])
    run = _run(cli_env, CLAUDE, scenario, "--env", f"DEPLOYMENT={pem}", prompt=f"Use {ends.join(PEM_LINES)}")
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert _find_leaks(cli_env, run, {line: line for line in PEM_LINES}) == []


def _configure(cli_env: CliEnv, servers: dict[str, dict[str, Any]]) -> None:
    config = Path(cli_env.env["HOME"], ".config", "inspan", "config.toml")
    config.parent.mkdir(parents=True)
    tables = [
        f"[mcp.{name}]\ncommand = {json.dumps(each['command'])}\nargs = {json.dumps(each['args'])}\n"
        f"env = {{API_KEY = {json.dumps(each['env']['API_KEY'])}}}\n"
        for name, each in servers.items()
    ]
    config.write_text("\n".join(tables))


def _build_leaking_scenario(style: Style) -> str:
    """A scenario in which an agent prints, says, thinks and writes every secret, to its stderr too."""
    every = " and ".join(PLANTED.values())
    pieces = [every[start : start + 5] for start in range(0, len(every), 5)]
    token, look = RUN_TOKEN[style.agent], "import json, os; print(json.dumps(dict(os.environ)))"
    command = f"printenv {token} > token.txt; cat spelled.txt; printenv; python3 -c '{look}'"
    steps = [
        f"run = {json.dumps(command)}",
        f"run = {json.dumps('cat spelled.txt > /proc/$PPID/fd/2; echo ' + IN_ENVIRONMENT['GITHUB_TOKEN'])}",
        f"write = {{path = '{IN_ENVIRONMENT['GITHUB_TOKEN']}.txt', content = {json.dumps(every)}}}",
        f"think = {json.dumps(every)}\nsay = {json.dumps(pieces)}",
    ]
    return "".join(f"[[call]]\n{step}\n" for step in steps)


def _run(cli_env: CliEnv, style: Style, scenario: str, *more: str, prompt: str = "") -> FinishedRun:
    model = ("--profile", "clean", "--model-from", cli_env.scenario(scenario))
    said = prompt or f"Use {' '.join(PLANTED.values())}"
    done = cli_env.inspan("run", said, "-a", style.agent, *style.arguments, *model, *OPTIONS, *more, env=IN_ENVIRONMENT)
    return FinishedRun(cli_env, done)


def _find_leaks(cli_env: CliEnv, run: FinishedRun, secrets: dict[str, str]) -> list[str]:
    """Each place where a piece of a secret stands, and which one."""
    places = {str(path.relative_to(cli_env.state)): path.read_bytes() for path in _files(cli_env)}
    places |= {"stdout of run": run.stdout.encode(), "stderr of run": run.stderr.encode()}
    for look in ("logs", "logs --raw", "events", "show", "show --json", "ps -a", "ps -a --json"):
        done = cli_env.inspan(*look.split())
        assert done.returncode == 0, done.stderr
        places |= {f"stdout of {look}": done.stdout.encode(), f"stderr of {look}": done.stderr.encode()}
    windows = {place: _windows(data) for place, data in places.items()}
    return [
        f"{name} in {place}: {sorted(found)}"
        for name, value in secrets.items()
        for place in places
        if (found := windows[place] & _pieces(value))
    ]


def _pieces(value: str) -> set[bytes]:
    return {piece for part in list_spellings(value).values() for piece in _windows(part.encode())}


def _windows(data: bytes) -> set[bytes]:
    return {data[start : start + WINDOW] for start in range(len(data) - WINDOW + 1)}


def _files(cli_env: CliEnv) -> Iterator[Path]:
    """Everything that inspan has written; what the agent keeps for itself is in `sessions`."""
    for path in cli_env.state.rglob("*"):
        if path.is_file() and not path.is_relative_to(cli_env.state / "sessions"):
            yield path


def test_a_file_for_the_agent_that_holds_a_secret_goes_with_the_run(cli_env: CliEnv) -> None:
    secret = "tok-Kd3Vn8Qp5Tz3Lw7Mb0Xy"
    done = cli_env.run(
        "claude",
        "[[call]]\nrun = 'ls $RUN_FOLDER > listed.txt'\n[[call]]\nsay = 'Done.'\n",
        "--env",
        f"MY_API_TOKEN={secret}",
        "--append-system-prompt",
        f"The token is {secret}.",
        "--system-prompt",
        "Be brief.",
    )
    assert done.verdict == ("completed", "done", 0), done.stderr
    folder = cli_env.folder(done.run_id)
    assert "appended-prompt.md" in (cli_env.work / "listed.txt").read_text()
    assert [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()] == []
    assert not (folder / "agent" / "appended-prompt.md").exists()
    assert (folder / "agent" / "system-prompt.md").exists()


def test_what_the_command_for_a_key_assigns_is_written_down_nowhere(cli_env: CliEnv) -> None:
    secret = "hvs-Qp5Tz3Lw7Mb0XyKd3Vn8"
    command = f"cmd:VAULT_TOKEN={secret} sh -c 'echo {KEY}'"
    with make_provider("[[call]]\nsay = 'Done.'\n", cli_env) as playing:
        done = run_live(cli_env, "claude", playing.url, "--key-from", command, env={})
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert playing.calls == [KEY_HEADER["claude"]]
    assert find_leaks([secret], below=[cli_env.state], printed=collect_output(cli_env) + done.stderr) == []
    assert "[REDACTED:VAULT_TOKEN]" in (cli_env.folder(done.run_id) / "run.json").read_text()
