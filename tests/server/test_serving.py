"""Starting and ending a server: where it listens, what it refuses, and that it goes at once and cleanly."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inspan.server.serve import bind
from tests.cli.refusal import parse_refusal
from tests.cli_env import CliEnv

from .conftest import Live, Serve


def test_who_starts_it_at_a_terminal_gets_a_link(cli_env: CliEnv) -> None:
    process = cli_env.start("serve", "--port", "0")
    assert process.stdout
    link = process.stdout.readline().decode().strip()
    address, _, token = link.partition("/#token=")
    assert address.startswith("http://127.0.0.1:") and len(token) > 40
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err.decode(), "runs start below" in err.decode()) == (0, False, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_its_streams_also_those_that_nobody_reads(
    serve: Serve, live: Live, number: signal.Signals
) -> None:
    server, run = serve(), live()
    clients = [server.follow(path) for path in (f"/runs/{run.run_id}/stream", "/stream")]
    run.say(*("word " * 2000 for _ in range(2000)))
    clients[0].read()
    began = time.monotonic()
    assert server.stop(number) == (0, "")
    # Many times what it takes, and far less than a stream lasts.
    assert time.monotonic() - began < 15


def test_a_slow_request_does_not_keep_it(serve: Serve, cli_env: CliEnv) -> None:
    server = serve()
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        head = f"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        slow.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n".encode())
        assert server.get("/info").status == 200
        code, err = server.stop()
    assert (code, "Traceback" in err) == (0, False)


def test_a_port_that_is_taken_is_refused_if_it_was_named(serve: Serve, cli_env: CliEnv) -> None:
    taken = serve().port
    refusal = parse_refusal(cli_env.inspan("serve", "--port", str(taken), "--json"))
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert "another program listens there" in refusal.message


def test_without_a_port_it_takes_the_next_that_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with bind("127.0.0.1", port, is_fixed=False) as found:
            assert port < found.getsockname()[1] < port + 100


def test_servers_that_start_at_once_get_ports_of_their_own(serve: Serve) -> None:
    with ThreadPoolExecutor(3) as pool:
        servers = [each.result() for each in [pool.submit(serve) for _ in range(3)]]
    assert len({server.port for server in servers}) == 3
    assert len({server.token for server in servers}) == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_it_listens_elsewhere_only_if_that_is_safe_or_said(cli_env: CliEnv, host: str) -> None:
    refusal = parse_refusal(cli_env.inspan("serve", "--host", host, "--json"))
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert "--insecure" in refusal.next


def test_it_listens_elsewhere_when_it_is_said(serve: Serve) -> None:
    server = serve("--host", "0.0.0.0", "--insecure")
    assert server.told["url"] == f"http://127.0.0.1:{server.port}"
    assert server.get("/info").status == 200


@pytest.mark.parametrize(
    "arguments",
    [
        ("--root", "none-such"),
        ("--root", "a:b"),
        ("--root", "file"),
        ("--root", ""),
        ("--allow-host", ""),
        ("--allow-host", "*"),
        ("--allow-host", "*.example"),
        ("--allow-host", "box.example:7117"),
        ("--allow-host", "https://box.example"),
        ("--tls-cert", "file"),
        ("--tls-cert", "file", "--tls-key", "file"),
        ("--tls-cert", "none-such", "--tls-key", "none-such"),
        ("--host", "no.such.host.invalid", "--insecure"),
        ("--host", "192.0.2.1", "--insecure"),
        ("--port", "70000"),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_sentence(cli_env: CliEnv, arguments: tuple[str, ...]) -> None:
    (cli_env.work / "file").write_text("no certificate")
    (cli_env.work / "a:b").mkdir()
    done = cli_env.inspan("serve", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("inspan: ") and "→" in done.stderr and "Traceback" not in done.stderr


def test_a_state_folder_that_depends_on_where_it_is_started_is_refused(cli_env: CliEnv) -> None:
    for command in ("serve", "ps"):
        done = cli_env.inspan(command, env={"INSPAN_STATE": "state"})
        assert (done.returncode, done.stdout, "INSPAN_STATE" in done.stderr) == (2, "", True)


def make_certificate(folder: Path) -> tuple[str, str]:
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return str(certificate), str(key)


def test_with_a_certificate_it_speaks_https_alone(serve: Serve, live: Live, cli_env: CliEnv) -> None:
    certificate, key = make_certificate(cli_env.root)
    server = serve("--tls-cert", certificate, "--tls-key", key, "--host", "0.0.0.0")
    assert server.told["url"].startswith("https://")
    login = server.post("/login", {"token": server.token}, token="")
    assert "Secure" in login.headers["set-cookie"]
    cookie = login.headers["set-cookie"].partition(";")[0]
    own = {"Cookie": cookie, "Origin": f"https://127.0.0.1:{server.port}", "X-Inspan-Key": login.json["key"]}
    assert server.post("/runs/nope/stop", token="", headers=own).code == "run_not_found"
    run = live()
    client = server.follow(f"/runs/{run.run_id}/stream")
    run.end()
    assert [event.kind for event in client.read_to_end()] == ["run_started", "run_ended", "end"]
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        plain.settimeout(60)
        assert not plain.recv(100).startswith(b"HTTP")


def test_two_servers_of_one_state_folder_tell_the_same(serve: Serve, live: Live) -> None:
    servers, run = [serve(), serve()], live()
    clients = [server.follow(f"/runs/{run.run_id}/stream") for server in servers]
    run.say("to both")
    run.end()
    assert clients[0].read_to_end() == clients[1].read_to_end()
    assert servers[0].get(f"/runs/{run.run_id}").json == servers[1].get(f"/runs/{run.run_id}").json


def test_without_the_extra_it_says_how_to_install_it(cli_env: CliEnv) -> None:
    hidden = cli_env.root / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        textwrap.dedent(
            """
            import sys
            class Hide:
                def find_spec(self, name, path=None, target=None):
                    if name.partition(".")[0] in ("uvicorn", "starlette"):
                        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            sys.meta_path.insert(0, Hide())
            """
        )
    )
    done = cli_env.inspan("serve", env={"PYTHONPATH": str(hidden)})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") <= 3
    assert "inspan[server]" in done.stderr and "Traceback" not in done.stderr


def test_no_other_command_loads_what_only_a_server_needs(cli_env: CliEnv) -> None:
    names = ("uvicorn", "starlette", "inspan.server")
    code = f"import sys; from inspan.cli.main import run; run(['ps']); print([n for n in {names} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=cli_env.env, cwd=cli_env.work, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_state_folder_that_cannot_be_written_is_told(cli_env: CliEnv) -> None:
    os.makedirs(cli_env.state)
    (cli_env.state / "server").write_text("a file")
    done = cli_env.inspan("serve")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr and "→" in done.stderr
