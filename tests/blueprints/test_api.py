"""Loops and blueprints from Python."""

import json
import subprocess
import sys

from tests.cli_env import CliEnv

BLUEPRINT = """
import json, sys
import inspan

class Heard:
    def __init__(self):
        self.calls = []
    def node_start(self, name, type):
        self.calls.append(["start", name, type])
    def node_output(self, name, chunk):
        pass
    def node_complete(self, name, result):
        self.calls.append(["complete", name, result.status])
    def run_complete(self, report):
        self.calls.append(["run", report.status])

async def main():
    heard = Heard()
    work = inspan.Blueprint(
        inputs={"who": inspan.Input(default="world")},
        nodes={
            "greet": inspan.CommandNode(run='echo "hello $WHO"', env={"WHO": "{{who}}"}, outputs={"said": "stdout"}),
            "agent": inspan.AgentNode(prompt="say: {{said}}", agent="scripted"),
            "test": inspan.CheckNode(run="exit 1", after=("agent",), allow_failure=True),
        },
    )
    task = inspan.Task(prompt="", cwd=".", profile="clean", model_from=sys.argv[1])
    report = await inspan.run_blueprint(work, task=task, reporter=heard)
    print(json.dumps([heard.calls, report.ended.reason, [each.ended.outputs for each in report.nodes]]))

inspan.run_sync(main())
"""
LOOP = """
import sys
import inspan

task = inspan.Task(prompt="count", cwd=".", agent="scripted", profile="clean", model_from=sys.argv[1])
policy = inspan.LoopPolicy(checks=('test "$(wc -l < turns)" -ge 2',), delay_s=0.01)
result = inspan.run_sync(inspan.run_loop(task, policy))
print(result.ended.reason, len(result.runs), result.cost.kind)
"""
CANCEL = """
import asyncio, sys
import inspan

async def main():
    task = inspan.Task(prompt="wait", cwd=".", agent="scripted", profile="clean", model_from=sys.argv[1])
    running = asyncio.create_task(inspan.run_loop(task))
    while not __import__("os").path.exists("begun"):
        await asyncio.sleep(0.05)
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        print("cancelled")

asyncio.run(main())
"""


def run_python(cli_env: CliEnv, program: str, model: str) -> str:
    argv = [sys.executable, "-W", "error", "-c", program, model]
    done = subprocess.run(argv, env=cli_env.env, cwd=cli_env.work, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.strip()


def test_a_blueprint_is_a_value_and_its_reporter_hears_of_every_node(cli_env: CliEnv) -> None:
    printed = run_python(cli_env, BLUEPRINT, cli_env.scenario('[[call]]\nsay = "Hi."\n'))
    calls, reason, outputs = json.loads(printed)
    assert calls == [
        *(["start", "greet", "command"], ["complete", "greet", "success"]),
        *(["start", "agent", "agent"], ["complete", "agent", "success"]),
        *(["start", "test", "check"], ["complete", "test", "failed"]),
        ["run", "success"],
    ]
    assert (reason, outputs) == ("done", [{"said": "hello world"}, {"agent": "Hi."}, {"test": ""}])


def test_a_loop_is_a_call(cli_env: CliEnv) -> None:
    turn = '[[call]]\nrun = "echo x >> turns"\n[[call]]\nsay = "Done."\n'
    assert run_python(cli_env, LOOP, cli_env.scenario(turn)) == "done 2 not_paid"


def test_a_call_that_is_cancelled_ends_its_loop(cli_env: CliEnv) -> None:
    turn = '[[call]]\nrun = "touch begun; sleep 1000"\n[[call]]\nsay = "Done."\n'
    assert run_python(cli_env, CANCEL, cli_env.scenario(turn)) == "cancelled"
    for path in cli_env.state.glob("projects/*/*/runs/*"):
        cli_env.wait_for_end(path.name)
        assert cli_env.events(path.name)[-1]["reason"] == "interrupted"
