"""Bad requests: each is a problem that says what is wrong, none breaks the server, and none makes it remember much."""

import json
import resource
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cli.scenarios import SAYS_HELLO, run_to_end
from tests.cli_env import WAIT_S, CliEnv

from .conftest import Serve
from .server_process import PREFIX, ServerProcess


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/nothing", None, (404, "not_found", None)),
        ("GET", "/runs/", None, (404, "not_found", None)),
        ("PUT", "/runs", None, (405, "method_not_allowed", None)),
        ("POST", "/info", None, (405, "method_not_allowed", None)),
        ("GET", "/runs/none-such", None, (404, "run_not_found", None)),
        ("GET", "/agents/none-such", None, (404, "unknown_agent", "agent")),
        ("GET", "/runs?limit=many", None, (400, "bad_input", "limit")),
        ("GET", "/runs?limit=0", None, (400, "bad_input", "limit")),
        ("GET", "/runs?limit=5&limit=6", None, (400, "bad_input", "limit")),
        ("GET", "/runs?before=x", None, (400, "bad_input", "before")),
        ("GET", "/runs?colour=red", None, (400, "bad_input", "colour")),
        ("GET", "/runs?search=%FF", None, (400, "bad_input", None)),
        ("GET", "/runs?search=%00", None, (400, "bad_input", "search")),
        ("GET", "/runs/x?run=y", None, (400, "bad_input", "run")),
        ("GET", "/runs/%00", None, (400, "bad_input", None)),
        ("GET", "/runs", b"{}", (400, "bad_input", None)),
        ("POST", "/runs/x/stop?now=true", b"{}", (400, "bad_input", None)),
        ("POST", "/runs/x/stop", b'{"now": "yes"}', (400, "bad_input", "now")),
        ("POST", "/runs/x/stop", b'{"run": "y"}', (400, "bad_input", "run")),
        ("POST", "/runs/x/stop", b'{"colour": 1}', (400, "bad_input", "colour")),
        ("POST", "/runs/x/stop", b"[1]", (400, "bad_json", None)),
        ("POST", "/runs/x/stop", b"{", (400, "bad_json", None)),
        ("POST", "/runs/x/stop", b"\xff", (400, "bad_json", None)),
        ("POST", "/runs/x/stop", b'{"now": ' + b"[" * 5000 + b"]" * 5000 + b"}", (400, "bad_json", None)),
        ("POST", "/runs/x/messages", b'{"text": "a\\u0000b"}', (400, "bad_input", None)),
        ("POST", "/runs/x/messages", b'{"text": "\\ud800"}', (400, "bad_json", None)),
        ("POST", "/runs/x/messages", b"{}", (400, "bad_input", "text")),
        ("POST", "/runs", b"{}", (400, "bad_input", "task")),
        ("POST", "/runs", b'{"task": {"cwd": "", "prompt": 1}}', (400, "bad_input", "task.prompt")),
        ("POST", "/runs", b'{"task": []}', (400, "bad_input", "task")),
    ],
)
def test_what_is_wrong_is_named(
    idle_server: ServerProcess, method: str, path: str, body: bytes | None, expected: tuple[int, str, str | None]
) -> None:
    headers = {"Content-Type": "application/json"} if body else {}
    answer = idle_server.ask(method, path, body=body, headers=headers)
    assert (answer.status, answer.code, answer.json.get("field")) == expected


@pytest.mark.parametrize("media_type", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_body_that_a_form_could_send_is_not_read(idle_server: ServerProcess, media_type: str) -> None:
    headers = {"Content-Type": media_type} if media_type else {}
    answer = idle_server.ask("POST", "/runs/x/stop", body=b'{"now": true}', headers=headers)
    assert (answer.status, answer.code) == (415, "not_json")


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e%2f%2e%2e",
        "....//",
        "%252e%252e%252f",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        "20260101-000000000-1%2f..%2f..",
        "..%5c..",
        "~",
        "@last%2f..",
        "x" * 5000,
        "%ff%fe",
        "\N{ROCKET}".encode().hex(),
    ],
)
@pytest.mark.parametrize("end", ["", "/events", "/stream", "/output/stdout", "/diff", "/transcript"])
def test_a_name_that_leads_elsewhere_finds_nothing(idle_server: ServerProcess, name: str, end: str) -> None:
    answer = idle_server.get(f"/runs/{name}{end}")
    assert answer.status in (400, 404)
    assert answer.code in ("bad_input", "not_found", "run_not_found")
    assert b"root:" not in answer.body


def test_a_large_body_is_refused_before_it_is_read(idle_server: ServerProcess) -> None:
    before_kb = idle_server.memory_kb()
    answer = idle_server.ask(
        "POST", "/runs", body=b" " * 10_000_000, headers={"Content-Type": "application/json", "Expect": "100-continue"}
    )
    assert (answer.status, answer.code) == (413, "body_too_large")
    assert idle_server.memory_kb() - before_kb < 5000


def send_raw(server: ServerProcess, data: bytes) -> bytes:
    """What comes back on a connection of its own, until the server closes it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        try:
            connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # It had seen enough.
        parts = list[bytes]()
        try:
            while part := connection.recv(65536):
                parts.append(part)
        except ConnectionResetError:
            pass  # What it had not read was still on the way.
        return b"".join(parts)


def head(server: ServerProcess, line: str, *more: str) -> bytes:
    fields = [line, "Host: localhost", f"Authorization: Bearer {server.token}", *more]
    return "\r\n".join([*fields, "", ""]).encode("latin-1")


def test_a_body_in_chunks_without_end_is_cut_off(idle_server: ServerProcess) -> None:
    request = head(idle_server, f"POST {PREFIX}/runs HTTP/1.1", "Transfer-Encoding: chunked")
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    assert b" 413 " in send_raw(idle_server, request + chunk * 40).partition(b"\r\n")[0] + b" "


def test_a_head_without_end_is_cut_off(idle_server: ServerProcess) -> None:
    answer = send_raw(idle_server, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-Filler: " + b"x" * 200_000)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "head_too_large"


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT x HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_request_is_answered_as_one_problem(idle_server: ServerProcess, data: bytes) -> None:
    answer = send_raw(idle_server, data)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "bad_request"


def test_a_request_id_is_taken_over_if_it_is_sane(idle_server: ServerProcess) -> None:
    taken = idle_server.get("/info", headers={"X-Request-Id": "trace-7:a.b"}).headers["x-request-id"]
    made = idle_server.get("/info", headers={"X-Request-Id": "a b <script>"}).headers["x-request-id"]
    assert (taken, made.startswith("req-")) == ("trace-7:a.b", True)


def test_what_breaks_inside_is_told_without_its_insides(serve: Serve, cli_env: CliEnv) -> None:
    run_id = run_to_end(cli_env)
    (cli_env.folder(run_id) / "run.json").write_text('{"task": 7}')
    server = serve()
    answer = server.get(f"/runs/{run_id}/state")
    assert (answer.status, answer.code) == (500, "harness_fault")
    assert b"Traceback" not in answer.body and b".py" not in answer.body
    code, err = server.stop()
    assert (code, answer.headers["x-request-id"] in err, "Traceback" in err) == (0, True, False)


def test_a_head_is_answered_without_a_body(idle_server: ServerProcess) -> None:
    answer = idle_server.ask("HEAD", "/info")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"Content-Length: 990000", b""),
        (b"Transfer-Encoding: chunked", b"1389\r\n" + b" " * 5001 + b"\r\n"),
    ],
)
def test_a_login_that_is_no_token_is_not_kept(idle_server: ServerProcess, head: bytes, body: bytes) -> None:
    with socket.create_connection(("127.0.0.1", idle_server.port), timeout=WAIT_S) as client:
        start = f"POST {PREFIX}/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
        client.sendall(start + head + b"\r\n\r\n" + body)
        assert client.recv(12) == b"HTTP/1.1 413"


@pytest.mark.parametrize("token", ["", "wrong"])
def test_without_a_token_no_body_is_waited_for(idle_server: ServerProcess, token: str) -> None:
    with socket.create_connection(("127.0.0.1", idle_server.port), timeout=WAIT_S) as client:
        start = f"POST {PREFIX}/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 990000\r\n"
        client.sendall(f"{start}{f'Authorization: Bearer {token}' if token else 'X-Y: z'}\r\n\r\n".encode())
        assert client.recv(12) == b"HTTP/1.1 401"


def test_those_without_a_token_leave_room_for_those_who_have_it(serve: Serve) -> None:
    server = serve()
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (120, hard))
    strangers: list[socket.socket] = []
    for _ in range(300):
        strangers.append(socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S))
        # It is there, and says nothing that would let it in.
        strangers[-1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET")
        assert strangers[-1].recv(12) == b"HTTP/1.1 200"
    assert server.get("/info").status == 200
    for each in strangers:
        each.close()


def test_those_who_follow_leave_room_for_requests(serve: Serve, cli_env: CliEnv) -> None:
    server = serve()
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (120, hard))
    head = f"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode()
    followers: list[socket.socket] = []
    answers: list[bytes] = []
    for _ in range(150):
        followers.append(socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S))
        followers[-1].sendall(head)
        answers.append(followers[-1].recv(12))
    assert set(answers) == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
    with ThreadPoolExecutor(5) as pool:
        assert {each.result().status for each in [pool.submit(server.get, "/cost") for _ in range(5)]} == {200}
    scenario = cli_env.work / "hello.toml"
    scenario.write_text(SAYS_HELLO)
    task = {"prompt": "x", "cwd": str(cli_env.work), "agent": "scripted", "model_from": f"script:{scenario}"}
    assert server.post("/runs", {"task": task}).status == 201
    refused = server.get("/stream")
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "too_many_followers", "1")
    assert "`ulimit -n`" in refused.json["next"]
    for each in followers:
        each.close()
