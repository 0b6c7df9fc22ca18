"""With `--direct`, a run uses the user's own key and settings, and keeps the key out of its folder."""

from pathlib import Path

import pytest

from tests.cli_env import CliEnv, FinishedRun
from tests.gateway.scripted_gateway import TOKEN, ScriptedGateway

SCENARIO = """
[[call]]
run = "env | sort"
[[call]]
say = "hello from the provider"
"""
FOREIGN = "foreign-provider-key-00"


def settings(cli_env: CliEnv, agent: str, port: int) -> dict[str, str]:
    """What a user of this agent has set up to reach a provider on loopback, and a key of another vendor."""
    base = f"http://127.0.0.1:{port}"
    if agent == "claude":
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1"}
        return {"ANTHROPIC_API_KEY": TOKEN, "ANTHROPIC_BASE_URL": base, "OPENAI_API_KEY": FOREIGN, **quiet}
    folder = Path(cli_env.env["HOME"]) / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(
        'model_provider = "own"\ncheck_for_update_on_startup = false\n'
        "[analytics]\nenabled = false\n[features]\nplugins = false\n"
        f'[model_providers.own]\nname = "own"\nbase_url = "{base}/v1"\nenv_key = "CODEX_API_KEY"\n'
        'wire_api = "responses"\n'
    )
    return {"CODEX_API_KEY": TOKEN, "ANTHROPIC_API_KEY": FOREIGN}


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_direct_run_uses_the_users_own_key_and_nobody_elses(cli_env: CliEnv, agent: str) -> None:
    with ScriptedGateway(SCENARIO, cwd=str(cli_env.work)) as provider:
        done = cli_env.inspan(
            "run", "do it", "-a", agent, "--profile", "user", "--direct", env=settings(cli_env, agent, provider.port)
        )
    run = FinishedRun(cli_env, done)
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert [call.status for call in provider.calls_so_far()] == [200, 200]
    (printed,) = [event["output"] for event in run.select_events("tool_completed")]
    names = {line.partition("=")[0] for line in printed.splitlines()}
    assert f"JRUN_ID={run.run_id}" in printed.splitlines()
    assert "IS_SANDBOX" not in names
    assert FOREIGN not in printed
    everything = b"".join(path.read_bytes() for path in cli_env.folder().rglob("*") if path.is_file())
    assert TOKEN.encode() not in everything
    assert "[REDACTED:" in printed
    assert not list(cli_env.state.glob("sessions/*/config"))


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_direct_run_in_a_box_reaches_its_provider_where_that_is_on_the_list(cli_env: CliEnv, agent: str) -> None:
    with ScriptedGateway('[[call]]\nsay = "hello"\n', cwd=str(cli_env.work)) as provider:
        place = f"allow=127.0.0.1:{provider.port}"
        box = ("--sandbox", "bwrap", "--net", place)
        env = settings(cli_env, agent, provider.port)
        done = cli_env.inspan("run", "do it", "-a", agent, "--profile", "user", "--direct", *box, env=env)
        run = FinishedRun(cli_env, done)
        assert run.verdict == ("completed", "done", 0), run.stderr
        assert f"reaches nothing but 127.0.0.1:{provider.port}" in run.stderr
        assert [call.status for call in provider.calls_so_far()] == [200]
