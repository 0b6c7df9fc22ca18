"""The log of a blueprint, cut, and refused by the disk: it is a prefix, and the blueprint goes on."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from inspan.blueprints.files import read_blueprint
from inspan.folds.blueprint import BlueprintFold, BlueprintState
from inspan.protocol.events import RunEnded
from inspan.protocol.wire import Record
from inspan.stores.event_log import iter_log, read_log
from tests.conftest import skip

from .conftest import Blueprints
from .test_recover import MOMENTS, TEXT, TURN, die_at, meet


def test_a_log_that_is_cut_at_any_byte_is_a_prefix(blueprints: Blueprints, tmp_path: Path) -> None:
    run = blueprints.run(TEXT, model=blueprints.cli_env.scenario(TURN))
    blueprint = read_blueprint(blueprints.write(TEXT))

    def fold(records: list[Record]) -> BlueprintState:
        folded = BlueprintFold(blueprint)
        for record in records:
            folded.add(record)
        return folded.state

    whole = (blueprints.cli_env.folder(run) / "events.jsonl").read_bytes()
    path = tmp_path / "cut"
    path.write_bytes(whole)
    records = read_log(str(path))
    assert len(records) == len(MOMENTS) + 1
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for cut in range(len(whole), -1, -1):
        os.truncate(path, cut)
        found = list(iter_log(str(path)))
        assert found == records[: sum(end <= cut for end in ends)]
        if cut in ends:
            assert fold(found) == fold(records[: len(found)])


@pytest.mark.parametrize("kept", [1, 40, -1], ids=["a byte", "a part", "all but its end"])
def test_a_blueprint_goes_on_from_a_log_with_half_a_record(blueprints: Blueprints, kept: int) -> None:
    cli_env = blueprints.cli_env
    lost = die_at(blueprints, 8)
    log = cli_env.folder(lost) / "events.jsonl"
    *_, last = log.read_bytes().splitlines(keepends=True)
    os.truncate(log, log.stat().st_size - len(last) + len(last[:kept]))
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    cli_env.wait_for_end(new)
    assert (cli_env.events(new)[-1]["reason"], (cli_env.work / "turns").read_text()) == ("done", "x\nx\n")
    assert tuple(cli_env.kinds(lost)) == (*MOMENTS[:7], "run_ended")


@pytest.mark.parametrize("number", [1, 4, 7, 9])
def test_a_disk_that_gives_errors_is_told_and_recovered_from(blueprints: Blueprints, number: int) -> None:
    cli_env = blueprints.cli_env
    done = meet(blueprints, "broken", number)
    assert done.returncode == 0, done.stderr
    (lost,) = blueprints.list_ids()
    ended = cli_env.events(lost)[-1]
    assert (ended["kind"], ended["outcome"], ended["reason"]) == ("run_ended", "failed", "store")
    assert "Input/output error" in ended["message"]
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    cli_env.wait_for_end(new)
    assert (cli_env.events(new)[-1]["reason"], (cli_env.work / "turns").read_text()) == ("done", "x\nx\n")
    assert cli_env.inspan("recover", "--yes").stdout == ""


def test_a_full_disk_is_told_and_recovered_from_once_there_is_room(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    alone = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*alone, "true"], check=False).returncode:
        skip("no-namespaces")
    state, kept = cli_env.env["XDG_STATE_HOME"], cli_env.root / "kept"
    fill = f'[nodes.before]\nkind = "command"\nrun = "test -e freed || cat /dev/zero > {state}/filler || true"\n'
    rest = TEXT[TEXT.index("[nodes.work]") :].replace("{{seen}}", "{{before}}")
    start = shlex.join(cli_env.argv(*blueprints.build(blueprints.write(fill + rest), model=cli_env.scenario(TURN))))
    recover, wait, again = (
        shlex.join(cli_env.argv(*each)) for each in (("recover", "--yes"), ("wait", "@last"), ("recover", "--dry-run"))
    )
    script = "\n".join(
        [
            f"mount -t tmpfs -o size=2m small {state} || exit 99",
            f"{start}; echo $?",
            f"rm {state}/filler; touch freed",
            f"{wait.replace('@last', f'$({recover})')}; echo $?",
            again,
            f"cp -a {state} {kept}",
        ]
    )
    done = subprocess.run(
        [*alone, "sh", "-c", script], env=cli_env.env, cwd=cli_env.work, capture_output=True, text=True, check=False
    )
    assert [line for line in done.stdout.split() if line.isdigit()] == ["1", "0"], done.stderr
    assert "Traceback" not in done.stderr and "inspan: nothing was lost here" in done.stderr
    logs = [read_log(str(path)) for path in kept.glob("inspan/projects/*/*/runs/*/events.jsonl")]
    assert all(records and isinstance(records[-1].event, RunEnded) for records in logs)
