"""A scenario file is read as written, or refused with the field, the value and what to do."""

from pathlib import Path

import pytest

from inspan.errors import BadScenario
from inspan.gateway import load_scenario, parse_scenario
from inspan.gateway.scripts.scenario import Call, Counts, Edit, Fail, Scenario, Use, Write

EVERYTHING = """
name = "all of it"
asides = true
[[call]]
think = "hm"
say = ["a", "b"]
run = "ls"
usage = {input = 1}
expect = "go"
[[call]]
write = {path = "f", content = "x"}
optional = true
[[call]]
edit = {path = "f", old = "x", new = "y"}
[[call]]
fail = {status = 429, headers = {retry-after = "5"}}
repeat = 2
[[call]]
say = "z"
stall = "mid-stream"
stall_s = 1
[[call]]
cut = true
[[call]]
use = {tool = "Read", input = {path = "f", lines = [1, 2]}}
expect_anywhere = ["a", "b"]
[[call]]
use = {tool = "Look", server = "box"}
expect_anywhere = "c"
[[call]]
when = "again"
answer = {n = 1, deep = {x = []}}
[[call]]
garbage = "<html>"
repeat = "always"
"""


def test_every_key_is_read() -> None:
    assert parse_scenario(EVERYTHING, name="file") == Scenario(
        name="all of it",
        asides=True,
        call=(
            Call(think="hm", say=("a", "b"), run="ls", usage=Counts(input=1), expect="go"),
            Call(write=Write(path="f", content="x"), optional=True),
            Call(edit=Edit(path="f", old="x", new="y")),
            Call(fail=Fail(status=429, headers={"retry-after": "5"}), repeat=2),
            Call(say="z", stall="mid-stream", stall_s=1.0),
            Call(cut=True),
            Call(use=Use(tool="Read", input={"path": "f", "lines": [1, 2]}), expect_anywhere=("a", "b")),
            Call(use=Use(tool="Look", server="box"), expect_anywhere="c"),
            Call(when="again", answer={"n": 1, "deep": {"x": []}}),
            Call(garbage="<html>", repeat="always"),
        ),
    )


def test_a_file_without_a_name_is_named_after_itself(tmp_path: Path) -> None:
    file = tmp_path / "hello.toml"
    file.write_text('[[call]]\nsay = "hi"\n')
    assert load_scenario(file).name == "hello"


@pytest.mark.parametrize(
    ("text", "field", "hint"),
    [
        ("", "call", "Add 'call'"),
        ("call = []", "call", "[[call]]"),
        ('[[calls]]\nsay = "x"', "calls", "Did you mean 'call'?"),
        ('[[call]]\nsay = "x"\n[[call]]\nsya = "x"', "call 2.sya", "Did you mean 'say'?"),
        ("[[call]]\nfail = {status = 200}", "call 1.fail.status", "int"),
        ('[[call]]\nfail = {status = "429"}', "call 1.fail.status", "'429'"),
        ("[[call]]\nfail = {state = 429}", "call 1.fail.s", "status"),
        ('[[call]]\nwrite = {path = "x"}', "call 1.write.content", "is missing"),
        ('[[call]]\nstall = "sometimes"', "call 1.stall", "sometimes"),
        ('[[call]]\nsay = "x"\nrepeat = 0', "call 1.repeat", "0"),
        ('[[call]]\nsay = "x"\nusage = {input = -1}', "call 1.usage.input", "-1"),
        ('[[call]]\nrun = "x"\nwrite = {path = "x", content = ""}', "call 1.write", "one at most"),
        ('[[call]]\nrun = "x"\nuse = {tool = "x"}', "call 1.use", "one at most"),
        ('[[call]]\nuse = {tool = "x"}\nanswer = {n = 1}', "call 1.answer", "one at most"),
        ("[[call]]\nuse = {input = {}}", "call 1.use.tool", "is missing"),
        ('[[call]]\nuse = {tool = "x", inputs = {}}', "call 1.use.inputs", "Did you mean 'input'?"),
        ("[[call]]\nanswer = [1]", "call 1.answer", "[1]"),
        ("[[call]]\nanswer = {n = 1}\ncut = true", "call 1.answer", "before it gets that far"),
        ('[[call]]\nwhen = "x"', "call 1.say", "Add one of say"),
        ('[[call]]\nsay = "x"\nexpect_anywhere = 5', "call 1.expect_anywhere", "5"),
        ('[[call]]\nsay = "x"\nfail = {status = 429}', "call 1.say", "whole answer"),
        ('[[call]]\nrun = "x"\ncut = true', "call 1.run", "before it gets that far"),
        ('[[call]]\nsay = "x"\nstall_s = 2', "call 1.stall_s", "before-headers"),
        ('[[call]]\nfail = {status = 429}\nstall = "mid-stream"', "call 1.stall", "before-headers"),
        ('[[call]]\nexpect = "x"', "call 1.say", "Add one of say"),
        ('[[call]]\nsay = "x"\nrepeat = "always"\n[[call]]\nsay = "y"', "call 1.repeat", "Move this call"),
        ('asides = "yes"\n[[call]]\nsay = "x"', "asides", "yes"),
        ('aside = true\n[[call]]\nsay = "x"', "aside", "Did you mean 'asides'?"),
        ('[[call]]\nrun = "x"\noptional = 1', "call 1.optional", "1"),
        ('[[call]]\nsay = "x"\noptional = true', "call 1.optional", "only run, write and edit"),
        ('[[call]]\nuse = {tool = "x"}\noptional = true', "call 1.optional", "only run, write and edit"),
        ('[[call]]\nuse = {tool = "x", server = 3}', "call 1.use.server", "3"),
        ("[[call", "scenario", "not TOML"),
    ],
)
def test_a_slip_is_named(text: str, field: str, hint: str) -> None:
    with pytest.raises(BadScenario) as refused:
        parse_scenario(text, name="slip")
    assert refused.value.field.startswith(field)
    assert hint in str(refused.value)
    assert refused.value.next_step


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "gone.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadScenario, match=r"gone\.toml"):
        load_scenario(file)


def test_an_answer_out_of_order_may_stand_anywhere() -> None:
    always = '[[call]]\nsay = "x"\nrepeat = "always"\n'
    scenario = parse_scenario(f'{always}[[call]]\nwhen = "y"\nsay = "z"\n', name="n")
    assert [call.when for call in scenario.call] == ["", "y"]
