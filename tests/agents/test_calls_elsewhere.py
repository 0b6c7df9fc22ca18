"""A real agent whose own settings lead its calls past the gateway: the run says so, and is not completed."""

import socket
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from tests.cli_env import CliEnv, FinishedRun

from .gateway_runs import KEY, build_argv
from .provider import Provider


class Proxy(Provider):
    """Answers everything itself, as a proxy that is asked for another host can."""

    def forward(self, request: BaseHTTPRequestHandler) -> None:
        request.path = urlsplit(request.path).path
        super().forward(request)


def test_a_proxy_that_takes_the_calls_is_told_of_and_fails_the_run(cli_env: CliEnv) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with Proxy("[[call]]\nsay = 'Hello.'\n", cwd=str(cli_env.work), listener=listener) as proxy:
        # Of all that names a proxy, this file alone stands above the environment.
        settings = Path(cli_env.env["HOME"], ".codex")
        settings.mkdir()
        (settings / ".env").write_text(f"HTTP_PROXY={proxy.url}\nhttp_proxy={proxy.url}\nNO_PROXY=\nno_proxy=\n")
        (settings / "config.toml").write_text("[analytics]\nenabled = false\n[features]\nplugins = false\n")
        asked = build_argv("codex", "http://127.0.0.1:9", "--budget", "1calls", profile="user")
        run = FinishedRun(cli_env, cli_env.inspan(*asked, env={"CODEX_API_KEY": KEY}))
    assert len(proxy.calls) == 1
    assert run.verdict == ("failed", "environment", 1), run.stderr
    assert [event["message"] for event in run.select_events("error_reported") if "gateway" in event["message"]] == [
        "Codex reported 137 tokens, but none of its calls came through the gateway: nothing was counted."
    ]
    assert "none of its calls came through the gateway" in run.stderr
