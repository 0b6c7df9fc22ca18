"""Tasks from files: TOML, SWE-bench instances, and what is no task."""

import json
from pathlib import Path

import pytest

from inspan.compare.tasks import read_tasks
from inspan.compare.values import CompareTask
from inspan.errors import BadInput


def test_a_folder_has_one_task_in_each_toml_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('prompt = "one"\ncheck = "make test"\nstart = "v1"\n')
    (tmp_path / "b.toml").write_text('prompt = "two"\ncheck = ["x", "y"]\nname = "second"\nrepository = "../other"\n')
    (tmp_path / "c.toml").write_text('prompt = "three"\n')
    (tmp_path / "notes.md").write_text("nothing")
    assert read_tasks(str(tmp_path), cwd="/here", checks=("usual",)) == [
        CompareTask(name="a", prompt="one", cwd="/here", start="v1", checks=("make test",)),
        CompareTask(name="second", prompt="two", cwd=f"{tmp_path}/../other", start="", checks=("x", "y")),
        CompareTask(name="c", prompt="three", cwd="/here", start="", checks=("usual",)),
    ]


@pytest.mark.parametrize("is_text", [True, False], ids=["lists as text", "lists"])
def test_a_swe_bench_instance_is_a_task(tmp_path: Path, is_text: bool) -> None:
    (tmp_path / "org__thing" / ".git").mkdir(parents=True)
    fail, keep = ["tests/test_a.py::test_x[1 2]"], ["tests/test_b.py::test_y"]
    instance = {
        "repo": "org/thing",
        "base_commit": "abc123",
        "problem_statement": "It breaks.",
        "instance_id": "org__thing-1",
        "FAIL_TO_PASS": json.dumps(fail) if is_text else fail,
        "PASS_TO_PASS": json.dumps(keep) if is_text else keep,
        "hints_text": "unused",
    }
    path = tmp_path / "swe.jsonl"
    path.write_text(json.dumps(instance) + "\n\n")
    (task,) = read_tasks(str(path), cwd="/here", checks=())
    assert task == CompareTask(
        name="org__thing-1",
        prompt="It breaks.",
        cwd=str(tmp_path / "org__thing"),
        start="abc123",
        checks=("python -B -m pytest -q 'tests/test_a.py::test_x[1 2]' tests/test_b.py::test_y",),
    )
    (own,) = read_tasks(str(path), cwd="/here", checks=("tox -- {tests}",))
    assert own.checks == ("tox -- 'tests/test_a.py::test_x[1 2]' tests/test_b.py::test_y",)


def test_the_tests_that_no_agent_is_shown_are_no_part_of_a_command(tmp_path: Path) -> None:
    (tmp_path / "y" / ".git").mkdir(parents=True)
    instance = {"repo": "x/y", "base_commit": "a", "problem_statement": "b", "test_patch": "diff --git\n \n"}
    path = tmp_path / "swe.json"
    path.write_text(json.dumps([instance, {**instance, "instance_id": "none", "test_patch": " \n"}]))
    one, none = read_tasks(str(path), cwd="/here", checks=("sh t.sh",))
    assert (one.checks, one.test_patch, none.test_patch) == (("sh t.sh",), "diff --git\n \n", "")


_SWE = '{"repo": "x/y", "base_commit": "a", "problem_statement": "b", "FAIL_TO_PASS": %s}'


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.json", _SWE % '"5"', "is no list of tests"),
        ("a.json", _SWE % json.dumps('{"a": 1}'), "is no list of tests"),
        ("a.json", _SWE % json.dumps('"abc"'), "is no list of tests"),
        ("a.json", "[" * 100_000, "it is not JSON"),
        ("a.toml", "prompt = 1", "Expected `str`, got `int`"),
        ("a.toml", "prompt = ", "it is not a task"),
        ("a.toml", 'prompt = "x"\nchek = "y"', "unknown field `chek`"),
        ("a.toml", 'prompt = "x"\nname = "../up"', "it cannot be a task's name"),
        ("a.json", "[", "it is not JSON"),
        ("a.json", '[{"repo": "x"}]', "missing required field `base_commit`"),
        ("a.json", '[{"repo": "x/y", "base_commit": "a", "problem_statement": "b"}]', "there is no checkout of it"),
        ("a.json", "[]", "there is no task in it"),
        ("a.txt", "x", "it is neither a folder nor"),
    ],
)
def test_what_is_no_task_is_refused_with_what_is_wrong(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=problem.replace("(", "\\(")):
        read_tasks(str(tmp_path / name), cwd=str(tmp_path / "nowhere"), checks=())


def test_two_tasks_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text('prompt = "x"\nname = "same"\n')
    with pytest.raises(BadInput, match="two of its tasks are called same"):
        read_tasks(str(tmp_path), cwd="/", checks=())
    with pytest.raises(BadInput, match="it is not there"):
        read_tasks(str(tmp_path / "missing"), cwd="/", checks=())
