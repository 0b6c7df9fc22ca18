"""Tasks to compare agents on: one from the command line, a folder of TOML files, or a file in SWE-bench's format."""

import json
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from inspan.errors import BadInput
from inspan.protocol.known_types import know_type

from .values import CompareTask

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_NAME_CHARACTERS = "a-z, A-Z, 0-9, '.', '_' and '-'"
_TESTS = "{tests}"
_TEST_COMMAND = f"python -B -m pytest -q {_TESTS}"  # What it compiles of tests would stay.
_SWE_KEYS = ("repo", "base_commit", "problem_statement")


class _TaskFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of a task's TOML file."""

    prompt: str
    check: str | list[str] = []
    start: str = ""
    name: str = ""
    repository: str = ""


class _SweTask(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a SWE-bench instance that are used here; lists may be JSON inside of a string."""

    repo: str
    base_commit: str
    problem_statement: str
    instance_id: str = ""
    test_patch: str = ""
    FAIL_TO_PASS: str | list[str] = []
    PASS_TO_PASS: str | list[str] = []


def read_tasks(path: str, *, cwd: str, checks: Sequence[str]) -> list[CompareTask]:
    """The tasks in a folder of TOML files, a TOML file, or a JSON or JSON-lines file of SWE-bench instances.

    `checks` hold for every task that names none; for SWE-bench instances they replace pytest, with `{tests}` for the
    names of the tests. Raises `BadInput` for what is not a task.
    """
    reader = _READERS.get(os.path.splitext(path)[1].lower(), _read_folder if os.path.isdir(path) else None)
    if reader is None:
        problem = "it is neither a folder nor a .toml, .json or .jsonl file."
        problem = problem if os.path.exists(path) else "it is not there."
        raise BadInput("--tasks", path, problem, next_step="Name a folder of .toml files.")
    tasks = reader(path, cwd, tuple(checks))
    if not tasks:
        raise BadInput("--tasks", path, "there is no task in it.", next_step="Put a .toml file with a prompt there.")
    names = [task.name for task in tasks]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        step = "Give each of them its own `name`."
        raise BadInput("--tasks", path, f"two of its tasks are called {twice[0]}.", next_step=step)
    return tasks


def check_name(name: str, *, path: str) -> str:
    """The name of a task, which is part of file names; raises `BadInput`."""
    if not _NAME.fullmatch(name):
        step = f"Use {_NAME_CHARACTERS}."
        raise BadInput("name", name, f"it cannot be a task's name ({path}).", next_step=step)
    return name


def _read_folder(path: str, cwd: str, checks: tuple[str, ...]) -> list[CompareTask]:
    names = sorted(name for name in os.listdir(path) if name.endswith(".toml"))
    return [task for name in names for task in _read_toml(os.path.join(path, name), cwd, checks)]


def _read_toml(path: str, cwd: str, checks: tuple[str, ...]) -> list[CompareTask]:
    try:
        given = msgspec.convert(tomllib.loads(_read(path)), know_type(_TaskFile))
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        step = "A task has `prompt`, and may have `check`, `start`, `name` and `repository`."
        raise BadInput("--tasks", path, f"it is not a task: {error}.", next_step=step) from error
    own = (given.check,) if isinstance(given.check, str) else tuple(given.check)
    return [
        CompareTask(
            name=check_name(given.name or os.path.splitext(os.path.basename(path))[0], path=path),
            prompt=given.prompt,
            cwd=os.path.join(os.path.dirname(os.path.abspath(path)), given.repository) if given.repository else cwd,
            start=given.start,
            checks=own or checks,
        )
    ]


def _read_json(path: str, cwd: str, checks: tuple[str, ...]) -> list[CompareTask]:
    return list(_convert_all(_parse(path, _read(path)), path, cwd, checks))


def _read_json_lines(path: str, cwd: str, checks: tuple[str, ...]) -> list[CompareTask]:
    lines = [line for line in _read(path).splitlines() if line.strip()]
    return list(_convert_all([_parse(path, line) for line in lines], path, cwd, checks))


def _convert_all(found: Any, path: str, cwd: str, checks: tuple[str, ...]) -> Iterator[CompareTask]:
    for each in cast(list[Any], found) if isinstance(found, list) else [found]:
        try:
            swe = msgspec.convert(each, know_type(_SweTask))
        except msgspec.ValidationError as error:
            step = f"A SWE-bench instance has {', '.join(_SWE_KEYS)}."
            raise BadInput("--tasks", path, f"it holds something else: {error}.", next_step=step) from error
        yield _convert_swe(swe, path, cwd, checks)


def _convert_swe(swe: _SweTask, path: str, cwd: str, checks: tuple[str, ...]) -> CompareTask:
    tests = " ".join(map(shlex.quote, (*_read_list(swe.FAIL_TO_PASS, path), *_read_list(swe.PASS_TO_PASS, path))))
    commands = checks or ((_TEST_COMMAND,) if tests else ())
    return CompareTask(
        name=check_name((swe.instance_id or f"{swe.repo}-{swe.base_commit[:8]}").replace("/", "__"), path=path),
        prompt=swe.problem_statement,
        cwd=_find_checkout(swe.repo, path, cwd),
        start=swe.base_commit,
        checks=tuple(each.replace(_TESTS, tests) for each in commands),
        test_patch=swe.test_patch if swe.test_patch.strip() else "",
    )


def _find_checkout(repo: str, path: str, cwd: str) -> str:
    """The checkout beside the file, by the name of the repository; the current one where it is called so."""
    around = os.path.dirname(os.path.abspath(path))
    short = repo.rpartition("/")[2]
    places = [os.path.join(around, name) for name in (repo.replace("/", "__"), repo, short)]
    for place in places:
        if os.path.exists(os.path.join(place, ".git")):
            return place
    if os.path.basename(os.path.realpath(cwd)) == short:
        return cwd
    step = f"Clone it to {places[0]}."
    raise BadInput("repo", repo, f"there is no checkout of it beside {path}, nor is this one.", next_step=step)


def _read_list(given: str | list[str], path: str) -> list[str]:
    found: Any = _parse(path, given or "[]") if isinstance(given, str) else given
    if not isinstance(found, list):
        problem = f"{given!r} is no list of tests."
        raise BadInput("--tasks", path, problem, next_step='Write ["tests/test_one.py::test_it"].')
    return [str(each) for each in cast(list[Any], found)]


def _parse(path: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        step = "Give one JSON list, or one JSON object per line in a .jsonl file."
        raise BadInput("--tasks", path, f"it is not JSON: {error}.", next_step=step) from error


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise BadInput("--tasks", path, f"it cannot be read: {why}.", next_step="Name another file.") from error


_READERS: Mapping[str, Callable[[str, str, tuple[str, ...]], list[CompareTask]]] = {
    ".toml": _read_toml,
    ".json": _read_json,
    ".jsonl": _read_json_lines,
}
