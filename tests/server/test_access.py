"""Who gets in: the token and where it may stand, the cookie, other sites, other names."""

import os
import select
import socket
import stat
import subprocess
import time
from contextlib import ExitStack

import pytest

from tests.cli_env import WAIT_S, CliEnv

from .conftest import Serve
from .server_process import PREFIX, ServerProcess

_UNSAFE = ("POST", "/runs/nope/stop")


def test_the_token_opens_and_is_private(idle_server: ServerProcess, idle_env: CliEnv) -> None:
    assert idle_server.get("/info").status == 200
    path = idle_env.state / "server" / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().strip() == idle_server.token
    assert idle_server.told["link"] == f"http://127.0.0.1:{idle_server.port}/#token={idle_server.token}"


@pytest.mark.parametrize(
    "path", ["/info", "/runs", "/openapi.json", "/stream", "/nothing", "/runs/x/stream", "/logout"]
)
def test_nothing_of_the_api_opens_without_it(idle_server: ServerProcess, path: str) -> None:
    answer = idle_server.get(path, token="")
    assert (answer.status, answer.code) == (401, "unauthorized")


@pytest.mark.parametrize("authorization", ["Bearer wrong", "Bearer ", "Basic dTpw", "bearer", "\xe9", "Bearer \xe9"])
def test_a_wrong_token_opens_nothing(idle_server: ServerProcess, authorization: str) -> None:
    answer = idle_server.get("/info", token="", headers={"Authorization": authorization})
    assert (answer.status, answer.code) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == 'Bearer realm="inspan"'


@pytest.mark.parametrize("name", ["token", "access_token", "Authorization"])
def test_a_token_in_an_address_is_refused_with_the_right_place(idle_server: ServerProcess, name: str) -> None:
    answer = idle_server.get(f"/info?{name}={idle_server.token}", token="")
    assert (answer.status, answer.code) == (400, "token_in_query")
    assert "Authorization: Bearer" in answer.json["next"]
    assert idle_server.token.encode() not in answer.body


def test_a_token_in_a_body_opens_nothing_but_the_login(idle_server: ServerProcess) -> None:
    answer = idle_server.post("/runs/nope/stop", {"token": idle_server.token}, token="")
    assert (answer.status, answer.code) == (401, "unauthorized")


def log_in(server: ServerProcess) -> str:
    return log_in_fully(server)[0]


def log_in_fully(server: ServerProcess) -> tuple[str, str]:
    """The cookie and the key."""
    answer = server.post("/login", {"token": server.token}, token="")
    assert (answer.status, list(answer.json)) == (200, ["key"])
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert set(attributes) >= {"HttpOnly", "SameSite=Strict", "Path=/"}
    assert cookie.startswith(f"inspan-{server.port}=") and server.token not in cookie
    assert answer.json["key"] not in (cookie, server.token)
    return cookie, answer.json["key"]


def test_a_login_gives_a_cookie_that_opens(idle_server: ServerProcess) -> None:
    cookie = log_in(idle_server)
    assert idle_server.get("/info", token="", headers={"Cookie": cookie}).status == 200
    assert idle_server.get("/info", token="", headers={"Cookie": f"a=b; {cookie}; c=d"}).status == 200
    assert idle_server.get("/info", token="", headers={"Cookie": cookie[:-1]}).status == 401
    out = idle_server.post(
        "/logout", token="", headers={"Cookie": cookie, "Origin": f"http://127.0.0.1:{idle_server.port}"}
    )
    assert (out.status, "Max-Age=0" in out.headers["set-cookie"]) == (204, True)


@pytest.mark.parametrize("body", [{"token": "wrong"}, {"token": ""}, {"token": "\ud83d\ude80"}])
def test_a_wrong_login_is_refused(idle_server: ServerProcess, body: dict[str, str]) -> None:
    answer = idle_server.post("/login", body, token="")
    assert (answer.status, answer.code, answer.headers["set-cookie"]) == (401, "unauthorized", None)


def test_a_cookie_changes_something_only_from_its_own_site(idle_server: ServerProcess) -> None:
    cookie, key = log_in_fully(idle_server)
    own = f"http://127.0.0.1:{idle_server.port}"
    method, path = _UNSAFE

    def ask(**headers: str) -> tuple[int, str]:
        given = {
            "Cookie": cookie,
            "X-Inspan-Key": key,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        answer = idle_server.ask(method, path, token="", headers=given)
        return answer.status, answer.code

    assert ask(Origin=own) == (404, "run_not_found")
    assert ask(Sec_Fetch_Site="same-origin") == (404, "run_not_found")
    for headers in (
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{idle_server.port + 1}"},
        {"Origin": own, "Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
    ):
        assert ask(**headers) == (403, "cross_site"), headers
    # Who sends the token itself is no browser that was tricked.
    assert idle_server.ask(method, path, headers={"Origin": "https://evil.example"}).code == "run_not_found"
    foreign = idle_server.get("/info", token="", headers={"Cookie": cookie, "Sec-Fetch-Site": "cross-site"})
    assert (foreign.status, foreign.code) == (403, "cross_site")


def test_a_cookie_alone_only_reads(idle_server: ServerProcess) -> None:
    cookie, key = log_in_fully(idle_server)
    method, path = _UNSAFE
    # Another server on this machine gets the cookie and may write any origin, and knows no key.
    given = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{idle_server.port}"}
    assert idle_server.get("/info", token="", headers=given).status == 200
    for wrong in ({}, {"X-Inspan-Key": ""}, {"X-Inspan-Key": key[:-1]}, {"X-Inspan-Key": cookie.partition("=")[2]}):
        answer = idle_server.ask(method, path, token="", headers={**given, **wrong})
        assert (answer.status, answer.code) == (403, "key_missing"), wrong
    assert idle_server.ask(method, path, token="", headers={**given, "X-Inspan-Key": key}).status == 404
    assert idle_server.get("/info", token="", headers={"X-Inspan-Key": key}).status == 401
    assert idle_server.get("/info", token=key).status == 401


def test_what_opens_a_server_that_only_shows_opens_no_other(serve: Serve) -> None:
    shown, full = serve("--read-only"), serve()
    assert shown.token != full.token
    shown_cookie, shown_key = (each.rpartition("=")[2] for each in log_in_fully(shown))
    cookie, key = (each.rpartition("=")[2] for each in log_in_fully(full))
    assert {shown_cookie, shown_key}.isdisjoint({cookie, key})
    for server, token, status in ((full, shown.token, 401), (shown, full.token, 200), (shown, shown.token, 200)):
        assert server.get("/info", token=token).status == status
        assert server.post("/login", {"token": token}, token="").status == status
    for server, value, status in ((full, shown_cookie, 401), (shown, cookie, 200), (shown, shown_cookie, 200)):
        headers = {"Cookie": f"inspan-{server.port}={value}"}
        assert server.get("/info", token="", headers=headers).status == status
    headers = {
        "Cookie": f"inspan-{full.port}={cookie}",
        "Origin": f"http://127.0.0.1:{full.port}",
        "X-Inspan-Key": shown_key,
    }
    assert full.post("/runs/nope/stop", {}, token="", headers=headers).code == "key_missing"
    # It stays the same when the server is started again, and ends with the token that it comes from.
    assert serve("--read-only").token == shown.token
    assert serve("--read-only", "--new-token").token != shown.token
    assert shown.get("/info", token=shown.token).status == 401


def test_another_site_cannot_log_a_browser_in(idle_server: ServerProcess) -> None:
    answer = idle_server.post(
        "/login", {"token": idle_server.token}, token="", headers={"Origin": "https://evil.example"}
    )
    assert (answer.status, answer.code) == (403, "cross_site")


@pytest.mark.parametrize("path", [f"{PREFIX}/info", "/", f"{PREFIX}/login"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7117",
        "",
        "127.0.0.1.evil.example",
        "[::1",
        "a@b",
        "127.0.0.1:7117.evil.example",
        "evil.example@127.0.0.1:7117",
        "127.0.0.1:99999",
        "127.0.0.1/evil.example",
        "127.0.0.1:",
        "127.0.0.1, evil.example",
        "[::1]evil.example",
        "evil.example#@127.0.0.1",
    ],
)
def test_a_name_that_somebody_pointed_here_is_refused(idle_server: ServerProcess, host: str, path: str) -> None:
    answer = idle_server.page(path, headers={"Host": host, "Authorization": f"Bearer {idle_server.token}"})
    assert (answer.status, answer.code) == (421, "unknown_host")


def test_two_names_are_none(idle_server: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", idle_server.port), timeout=WAIT_S) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 421"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "[::1]:7117", "192.168.0.7"])
def test_this_machine_may_be_called_by_its_numbers(idle_server: ServerProcess, host: str) -> None:
    assert idle_server.get("/info", headers={"Host": host}).status == 200


def test_a_name_that_was_allowed_is_taken(serve: Serve) -> None:
    server = serve("--allow-host", "Box.Example")
    assert server.get("/info", headers={"Host": "box.example:80"}).status == 200


def test_no_other_site_is_let_read_anything(idle_server: ServerProcess) -> None:
    answer = idle_server.ask("OPTIONS", "/info", headers={"Origin": "https://evil.example"})
    assert answer.status == 405
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_every_answer_has_the_headers_that_protect_a_browser(idle_server: ServerProcess) -> None:
    answers = [
        idle_server.get("/info"),
        idle_server.get("/nothing"),
        idle_server.page("/"),
        idle_server.get("/x", token=""),
    ]
    for answer in answers:
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["server"] is None
    assert [answer.headers["cache-control"] for answer in answers] == ["no-store", "no-store", "no-cache", "no-store"]


def test_a_token_survives_the_server_and_a_new_one_ends_the_old_at_once(serve: Serve) -> None:
    first = serve()
    cookie = log_in(first)
    second = serve("--port", "0")
    assert second.token == first.token
    value = cookie.partition("=")[2]
    assert second.get("/info", token="", headers={"Cookie": f"inspan-{second.port}={value}"}).status == 200
    stream = first.follow("/stream")
    third = serve("--new-token")
    assert third.token != first.token
    assert stream.read_to_end() == []  # It does not wait for its client to leave.
    assert first.get("/info", token=third.token).status == 200
    assert first.get("/info", token=second.token).status == 401
    assert first.get("/info", token="", headers={"Cookie": cookie}).status == 401


def test_a_token_file_that_is_damaged_or_open_to_others_is_mended(serve: Serve, cli_env: CliEnv) -> None:
    folder = cli_env.state / "server"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "token").write_text("short")
    server = serve()
    assert len(server.token) > 40
    os.chmod(folder / "token", 0o644)
    assert serve().token == server.token
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600


def test_who_guesses_waits_and_nobody_else_does(idle_server: ServerProcess) -> None:
    waited = list[float]()
    for _ in range(4):
        began = time.monotonic()
        assert idle_server.get("/info", token="wrong").status == 401
        waited.append(time.monotonic() - began)
    # Each wait is twice the one before, whatever this machine adds.
    assert waited[3] >= 0.8
    with ExitStack() as held:
        # The last of them waits for seconds, and the others for less.
        guesses = [held.enter_context(socket.create_connection(("127.0.0.1", idle_server.port))) for _ in range(4)]
        request = f"GET {PREFIX}/info HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n"
        for guess in guesses:
            guess.sendall(request.encode())
        assert idle_server.get("/info").status == 200
        assert len(select.select(guesses, [], [], 0)[0]) < len(guesses)


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
def test_a_server_that_only_shows_changes_nothing(serve: Serve, method: str) -> None:
    server = serve("--read-only")
    assert server.get("/info").json["read_only"] is True
    answer = server.ask(method, "/runs/nope")
    assert (answer.status, answer.code) == (403, "read_only")
    assert server.get("/runs").status == 200
    log_in(server)


def test_the_token_is_neither_logged_nor_in_the_process_list(serve: Serve) -> None:
    server = serve()
    server.get(f"/runs?token={server.token}")
    server.get("/info", token=server.token[:-1])
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert server.token not in listed
    code, err = server.stop()
    assert (code, server.token in err) == (0, False)
