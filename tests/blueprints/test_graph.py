"""What can be wrong with a blueprint is found before anything runs, and said with the field and a next step."""

from pathlib import Path

import pytest

from inspan.blueprints.files import list_ready, parse_blueprint, read_blueprint
from inspan.blueprints.graph import Graph, build_graph, complete_inputs
from inspan.errors import BadInput
from inspan.protocol.blueprint import AgentNode, Blueprint

A = '[nodes.a]\nkind = "command"\nrun = "true"\n'
B = '[nodes.b]\nkind = "agent"\nprompt = "use {{a}}"\n'
CHECK = '[nodes.c]\nkind = "check"\nrun = "true"\n'


def build(text: str, **inputs: str) -> Graph:
    blueprint = parse_blueprint(text, source="work.toml")
    return build_graph(blueprint, complete_inputs(blueprint, inputs))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nodes = 1", "BLUEPRINT 'work.toml': expected `object`, got `int` in nodes."),
        ("[nodes", "BLUEPRINT 'work.toml': it is no TOML: "),
        ("", "BLUEPRINT 'work.toml': object missing required field `nodes`."),
        ("[nodes]\n", "nodes {}: there is nothing to do."),
        ('[nodes.a]\nkind = "comand"\nrun = "x"\n', "'work.toml': invalid value 'comand' in nodes.a.kind."),
        ('[nodes.a]\nkind = "command"\nrum = "x"\n', "field `rum` in nodes.a."),
        ('[nodes.a]\nkind = "command"\nrun = 1\n', "expected `str`, got `int` in nodes.a.run."),
        ('[nodes.a]\nkind = "command"\nrun = " "\n', "nodes.a.run ' ': it is no command."),
        (A + 'after = ["z"]\n', "nodes.a.after 'z': there is no such node. There are: a."),
        (A + 'after = ["a"]\n', "nodes.a.after 'a': a node cannot need itself."),
        (A + B.replace("{{a}}", "{{aa}}"), "nodes.b.prompt 'aa': nothing has the name aa. Do you mean a?"),
        (A + B.replace("{{a}}", "{{}}"), "nodes.b.prompt '{{}}': it is no name."),
        (A + 'env = { X = "{{b}}" }\n' + B, "nodes 'a → b → a': these need each other in a circle."),
        (A + 'outputs = { x = "stdout" }\n' + CHECK + 'outputs = { x = "output" }\n', "a and c both write it."),
        (A + 'outputs = { x = "answer" }\n', "nodes.a.outputs.x 'answer': there is no such output."),
        ("[inputs.a]\ndefault = 'x'\n" + A, "nodes.a.outputs.a 'a': an input has that name."),
        (A + '[loops.l]\nnodes = ["a"]\nuntil = "a"\n', "loops.l.until 'a': it is no check of this loop."),
        (CHECK + '[loops.l]\nnodes = ["c"]\nuntil = "c"\nrounds = 0\n', "loops.l.rounds 0: these are no rounds."),
        (CHECK + '[loops.l]\nnodes = ["c", "z"]\nuntil = "c"\n', "loops.l.nodes 'z': there is no such node."),
        (A + B.replace("{{a}}", "{{previous.a}}"), "'previous.a': there is no round before to look at."),
        (A + 'timeout = "soon"\n', "nodes.a.timeout 'soon': it is no duration."),
        ('timeout = "1m"\n' + A + 'timeout = "2m"\n', "nodes.a.timeout '2m': the whole blueprint may take 1m."),
        (A + 'timeout = "0s"\n', "nodes.a.timeout '0s': it is no time at all."),
        (B.replace("use {{a}}", " "), "nodes.b.prompt ' ': it says nothing."),
        ("[nodes.p]\nkind = 'person'\nquestion = ''\n", "nodes.p.question '': it asks nothing."),
        ("[nodes.c]\nkind = 'apply'\nof = 'zz'\n", "nodes.c.of 'zz': it is no agent of this blueprint."),
        (A + "[nodes.c]\nkind = 'apply'\nof = 'a'\n", "nodes.c.of 'a': it is no agent of this blueprint."),
        (A + 'env = { "X=Y" = "" }\n', "nodes.a.env 'X=Y': it cannot be a variable's name."),
        (B.replace("{{a}}", "x") + 'schema = { type = "object" }\n', "nodes.b.schema 'exec': only a completion has"),
        (B.replace("{{a}}", "x") + 'resume = "b"\n', "nodes.b.resume 'b': a node cannot need itself."),
        (A + B + 'resume = "a"\n', "nodes.b.resume 'a': it has no session to go on with."),
        (A + 'run = "echo {{x}}"\n'.replace("run", "where") + B, "nodes.a.where 'echo {{x}}': there is no such node."),
        (A.replace("true", "echo {{b}}") + B, "nodes.a.run 'echo {{b}}': a value inside of a command could be read"),
        ('[nodes."a b"]\nkind = "command"\nrun = "x"\n', "name 'a b': it cannot be a name."),
        ('[nodes.previous]\nkind = "command"\nrun = "x"\n', "name 'previous': it cannot be a name."),
        ('budget = ["lots"]\n' + A, "lots"),
    ],
)
def test_what_is_wrong_is_named(text: str, problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        build(text)
    assert problem in f"{caught.value} {caught.value.next_step}"
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "--input 'who': it is missing: whom to greet. Give it with --input who=VALUE."),
        ({"who": "a", "whom": "b"}, "--input 'whom': the blueprint has no such input. Do you mean who?"),
        ({"who": "a\0b"}, "--input 'who': it holds a NUL character."),
    ],
)
def test_inputs_are_checked(given: dict[str, str], problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        build("[inputs.who]\nabout = 'whom to greet'\n" + A, **given)
    assert problem in f"{caught.value} {caught.value.next_step}"


def test_a_node_needs_those_whose_outputs_it_uses() -> None:
    graph = build(A + B + CHECK + 'after = ["b"]\n')
    assert graph.needs == {"a": (), "b": ("a",), "c": ("b",)}
    assert graph.order == ("a", "b", "c")


def test_an_input_is_in_its_place_before_anything_runs() -> None:
    text = "[inputs.test]\n" + A.replace('"true"', '"{{test}}"')
    node = build(text, test="make test; true").blueprint.nodes["a"]
    assert getattr(node, "run", "") == "make test; true"


def test_whoever_needs_a_node_of_a_loop_waits_for_all_of_it() -> None:
    loop = '[loops.l]\nnodes = ["a", "c"]\nuntil = "c"\n'
    graph = build(A + CHECK + 'after = ["a"]\n' + B + loop)
    assert graph.order == ("a", "c", "b")


@pytest.mark.parametrize("name", list_ready())
def test_those_that_come_with_inspan_are_right(name: str) -> None:
    blueprint = list_ready()[name]
    values = {each: given.default or "x" for each, given in blueprint.inputs.items()}
    assert set(build_graph(blueprint, values).order) == set(blueprint.nodes)
    assert blueprint.about.endswith(".") and all(each.about.endswith(".") for each in blueprint.inputs.values())


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("work.toml", "#" * 1_000_001, "it has more than 1,000,000 characters."),
        ("work.py", "raise SystemExit(3)", "it failed with SystemExit: 3."),
    ],
)
def test_a_file_that_is_no_blueprint_is_refused(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput) as refused:
        read_blueprint(str(tmp_path / name))
    assert problem in str(refused.value)


def test_half_a_character_of_a_program_is_refused() -> None:
    with pytest.raises(BadInput) as refused:
        build_graph(Blueprint(nodes={"a": AgentNode(prompt="\ud800")}), {})
    assert "nodes 'a': it has half of a character in it." in str(refused.value)
