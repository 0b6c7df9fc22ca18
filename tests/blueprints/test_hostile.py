"""Blueprints whose values and commands do what nobody expects: what fails is one node, with a sentence."""

import pytest

from .conftest import Blueprints


@pytest.mark.parametrize("containment", ["", "reaper"])
def test_a_command_that_takes_too_long_takes_no_other_with_it(blueprints: Blueprints, containment: str) -> None:
    blueprints.cli_env.env["INSPAN_CONTAINMENT"] = containment
    run = blueprints.run(
        """
        [nodes.slow]
        kind = "command"
        run = "touch begun; sleep 1000"
        timeout = "8s"
        [nodes.brief]
        kind = "command"
        run = "until test -e begun; do sleep 0.05; done"
        [nodes.other]
        kind = "command"
        run = "sleep 11; echo whole"
        """
    )
    assert blueprints.nodes(run) == {"slow": "failed", "brief": "success", "other": "success"}
    assert blueprints.outputs(run)["other"] == "whole"


def test_a_value_that_is_too_long_for_a_variable_is_named(blueprints: Blueprints) -> None:
    run = blueprints.run(
        """
        [nodes.long]
        kind = "command"
        run = "head -c 200000 /dev/zero | tr '\\\\0' x"
        outputs = { value = "stdout" }
        [nodes.use]
        kind = "command"
        run = "true"
        env = { VALUE = "{{value}}" }
        """
    )
    (ended,) = [each for each in blueprints.select(run, "node_ended") if each["node"] == "use"]
    assert ended["error"] == (
        "env VALUE '…': it is too long for a variable: 131,072 bytes are the most that this system takes. "
        "Hand it on in a file."
    )
    assert blueprints.cli_env.events(run)[-1]["reason"] == "node_failed"


def test_a_part_that_no_list_has_fails_its_node_alone(blueprints: Blueprints) -> None:
    run = blueprints.run(
        f"""
        [nodes.list]
        kind = "command"
        run = "echo [1]"
        outputs = {{ value = "stdout" }}
        [nodes.use]
        kind = "command"
        run = "true"
        env = {{ VALUE = "{{{{value.{"9" * 5000}}}}}" }}
        """
    )
    assert blueprints.nodes(run) == {"list": "success", "use": "failed"}


def test_an_input_that_is_no_text_is_refused(blueprints: Blueprints) -> None:
    text = '[inputs.who]\n[nodes.greet]\nkind = "command"\nrun = "true"\nenv = { WHO = "{{who}}" }\n'
    blueprints.run(text, "-i", b"who=\xff".decode(errors="surrogateescape"))
    assert (blueprints.code, blueprints.stderr) == (
        2,
        "inspan: --input 'who': it is not UTF-8.\n  → Write it in UTF-8.\n",
    )


def test_the_last_run_stands_for_the_blueprint_that_it_belongs_to(blueprints: Blueprints) -> None:
    text = '[nodes.a]\nkind = "agent"\nagent = "scripted"\nprompt = "x"\n'
    text += '[nodes.b]\nkind = "check"\nrun = "test -e made"\n'
    run = blueprints.run(text, model=blueprints.cli_env.scenario('[[call]]\nsay = "Done."\n'))
    for verb in ("show", "report"):
        done = blueprints.cli_env.inspan("blueprint", verb)
        assert done.returncode == 0 and run in done.stderr, done.stderr
    (blueprints.cli_env.work / "made").touch()
    assert blueprints.nodes(blueprints.resume("@last")) == {"b": "success"}


def test_a_secret_that_a_node_gives_is_stored_nowhere(blueprints: Blueprints) -> None:
    secret = "sk-made-up-0123456789abcdef"
    blueprints.cli_env.env["MADE_UP_API_KEY"] = secret
    text = """
        [nodes.key]
        kind = "command"
        run = 'echo "$MADE_UP_API_KEY"'
        [nodes.use]
        kind = "agent"
        agent = "scripted"
        prompt = "<script>{{key}}</script>"
        """
    run = blueprints.run(text, model=blueprints.cli_env.scenario('[[call]]\nsay = "Done."\n'))
    assert blueprints.nodes(run) == {"key": "success", "use": "success"}
    stored = [path for path in blueprints.cli_env.state.rglob("*") if path.is_file()]
    assert [path for path in stored if secret.encode() in path.read_bytes()] == []
    (page,) = [path.read_text() for path in stored if path.name == "report.html"]
    assert "<script" not in page


def test_an_input_that_held_a_secret_is_never_gone_on_with_as_another_text(blueprints: Blueprints) -> None:
    secret = blueprints.cli_env.env["MADE_UP_API_KEY"] = "sk-made-up-0123456789abcdef"
    text = """
        [inputs.key]
        [nodes.a]
        kind = "command"
        run = 'printf %s "$KEY" > out; exit 1'
        env = { KEY = "{{key}}" }
        """
    run = blueprints.run(text, "-i", f"key={secret}")
    (blueprints.cli_env.work / "out").unlink()
    blueprints.resume(run)
    assert blueprints.code == 2 and "held a secret, which is not stored" in blueprints.stderr
    assert not (blueprints.cli_env.work / "out").exists()


def test_what_cannot_be_brought_in_is_no_fault_of_the_machine(blueprints: Blueprints) -> None:
    blueprints.make_repository(n="0")
    text = """
        [nodes.a]
        kind = "agent"
        agent = "scripted"
        prompt = "x"
        sandbox = "worktree"
        [nodes.dirty]
        kind = "command"
        run = "echo mine > n"
        after = ["a"]
        [nodes.bring]
        kind = "apply"
        of = "a"
        after = ["dirty"]
        """
    model = blueprints.cli_env.scenario('[[call]]\nrun = "echo 1 > n"\n[[call]]\nsay = "Done."\n')
    run = blueprints.run(text, model=model)
    assert blueprints.nodes(run)["bring"] == "failed"
    assert blueprints.cli_env.events(run)[-1]["reason"] == "node_failed"
    assert (blueprints.cli_env.work / "n").read_text() == "mine\n"
