"""Secrets that an agent gets to see or to say stand in no file of the run and in nothing that is printed."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from tests.house import Finished, House

from .proof import DONE, End, prove
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
# So much of a secret, in any spelling, is a leak: what is left of one that was cut in two would be longer.
WINDOW = 9
INVALID = End(outcome="failed", reason="unknown", code=1)
SCRIPT = End(outcome="failed", reason="script", code=1)


def spelled(value: str) -> dict[str, str]:
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
def test_planted_secrets_stand_in_no_output(house: House, style: Style) -> None:
    (house.work / "spelled.txt").write_text("\n".join(text for value in PLANTED.values() for text in spelled(value)))
    run = _run(house, style, _indiscreet(style), "--partial")
    prove(house, run.run_id, end=DONE, usage=PER_CALL + PER_CALL + PER_CALL + PER_CALL)
    token = (house.work / "token.txt").read_text().strip()
    leaks = _leaks(house, run, {**PLANTED, "RUN_TOKEN": token})
    assert leaks == []
    log = (house.folder() / "events.jsonl").read_text()
    assert [name for name in (*PLANTED, "RUN_TOKEN") if f"[REDACTED:{name}]" not in log] == []
    assert "[REDACTED:GITHUB_TOKEN]" in (house.folder() / "stderr").read_text()
    assert "[REDACTED:GITHUB_TOKEN]" in run.stdout


def test_a_secret_in_pieces_is_redacted_in_pieces(house: House) -> None:
    pieces = [IN_ENVIRONMENT["GITHUB_TOKEN"][start : start + 3] for start in range(0, 36, 3)]
    scenario = f"[[call]]\nsay = {json.dumps(['The key is ', *pieces, ', well kept.'])}\n"
    run = _run(house, CLAUDE, scenario, "--partial")
    prove(house, run.run_id, end=DONE, usage=PER_CALL)
    deltas = [event["text"] for event in run.of("text_delta")]
    assert len(deltas) > 1
    assert "".join(deltas) == "The key is [REDACTED:GITHUB_TOKEN], well kept."
    assert _leaks(house, run, PLANTED) == []


@each_agent
def test_secrets_in_the_words_of_a_failing_model_are_redacted(house: House, style: Style) -> None:
    told = json.dumps(f"No such key: {' '.join(PLANTED.values())}")
    run = _run(house, style, f"[[call]]\nfail = {{status = 400, message = {told}}}\nrepeat = 'always'\n")
    ended = prove(house, run.run_id, end=INVALID)
    assert "[REDACTED:GITHUB_TOKEN]" in ended.message
    assert _leaks(house, run, PLANTED) == []


@pytest.mark.parametrize("before", [0, 150, 171, 185])
def test_secrets_in_a_complaint_about_the_script_are_redacted(house: House, before: int) -> None:
    # A complaint quotes 200 characters: the end must not cut a secret so that the rest is not found any more.
    prompt = "x" * before + "".join(PLANTED.values())
    run = _run(house, CODE_MODE, '[[call]]\nexpect = "something else"\nsay = "no"\n', prompt=prompt)
    prove(house, run.run_id, end=SCRIPT)
    assert _leaks(house, run, PLANTED) == []


def test_a_clean_run_hands_on_no_secret_of_its_parent(house: House) -> None:
    scenario = "[[call]]\nrun = 'env > env.txt'\n[[call]]\nsay = 'Done.'\n"
    run = _run(house, CODE_MODE, scenario)
    prove(house, run.run_id, end=DONE, usage=PER_CALL + PER_CALL)
    given = (house.work / "env.txt").read_text()
    assert [name for name, value in IN_ENVIRONMENT.items() if value in given] == []
    assert [name for name, value in BY_OPTION.items() if value not in given] == []


def test_a_run_with_the_users_settings_gets_secrets_and_prints_none(house: House) -> None:
    scenario = """
        [[call]]
        run = "test -n \\"$GITHUB_TOKEN$DB_PASSWORD\\" && printenv && printenv GITHUB_TOKEN | base64 -w0"
        [[call]]
        say = "Done."
    """
    quiet = ("--env", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
    run = _run(house, CLAUDE, scenario, "--profile", "user", *quiet)
    prove(house, run.run_id, end=DONE, usage=PER_CALL + PER_CALL)
    [printed] = [event["output"] for event in run.of("tool_completed")]
    assert "GITHUB_TOKEN=[REDACTED:GITHUB_TOKEN]" in printed
    assert "DB_PASSWORD=[REDACTED:DB_PASSWORD]" in printed
    assert _leaks(house, run, PLANTED) == []


def _indiscreet(style: Style) -> str:
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


def _run(house: House, style: Style, scenario: str, *more: str, prompt: str = "") -> Finished:
    model = ("--profile", "clean", "--model-from", house.scenario(scenario))
    said = prompt or f"Use {' '.join(PLANTED.values())}"
    done = house.inspan("run", said, "-a", style.agent, *style.arguments, *model, *OPTIONS, *more, env=IN_ENVIRONMENT)
    return Finished(house, done)


def _leaks(house: House, run: Finished, secrets: dict[str, str]) -> list[str]:
    """Each place where a piece of a secret stands, and which one."""
    places = {str(path.relative_to(house.state)): path.read_bytes() for path in _files(house)}
    places |= {"stdout of run": run.stdout.encode(), "stderr of run": run.stderr.encode()}
    for look in ("logs", "logs --raw", "events", "show", "show --json", "ps -a", "ps -a --json"):
        done = house.inspan(*look.split())
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
    return {piece for part in spelled(value).values() for piece in _windows(part.encode())}


def _windows(data: bytes) -> set[bytes]:
    return {data[start : start + WINDOW] for start in range(len(data) - WINDOW + 1)}


def _files(house: House) -> Iterator[Path]:
    """Everything that inspan has written; what the agent keeps for itself is in `sessions`."""
    for path in house.state.rglob("*"):
        if path.is_file() and not path.is_relative_to(house.state / "sessions"):
            yield path
