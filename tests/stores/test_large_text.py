"""Texts over 1 MB leave the log for a file beside it, redacted on the way."""

import json
from pathlib import Path

import msgspec
import pytest

from inspan.redaction import SecretSet
from inspan.stores.large_text import LARGE_BYTES, restore_large_texts, spill_large_texts
from tests.cli_env import CliEnv
from tests.running.fake_agent import Fake, fake_agent_env, run_fake_agent

_SECRET = "sk-0123456789abcdefghij"


def _spill(folder: Path, frame: bytes, secret: str = _SECRET) -> object:
    light = spill_large_texts(frame, folder=str(folder), secrets=SecretSet({"KEY": secret}), number=7)
    return msgspec.json.decode(light)


def test_a_frame_without_a_large_text_stays_as_it_is(tmp_path: Path) -> None:
    frame = json.dumps({"a": "x" * (LARGE_BYTES - 2), "b": ["y" * 900_000] * 3}).encode()
    assert spill_large_texts(frame, folder=str(tmp_path), secrets=SecretSet({}), number=7) is frame
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_500_000,
        "日本語 \U0001f642 " * 200_000,
        'quotes " and \\ and \n\t\x00' * 100_000,
        "\\" * 1_500_000,
        "é" * 1_000_001,
    ],
    ids=["plain", "wide", "escaped", "backslashes", "accents"],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_large_text_is_kept_as_it_was_meant(tmp_path: Path, text: str, ascii_only: bool) -> None:
    frame = json.dumps({"kind": "x", "text": text, "n": 5}, ensure_ascii=ascii_only).encode()
    size = len(text.encode())
    assert _spill(tmp_path, frame) == {"kind": "x", "text": f"[large: {size} bytes in large/7-1.txt]", "n": 5}
    assert (tmp_path / "large" / "7-1.txt").read_bytes() == text.encode()


def test_several_large_texts_get_files_of_their_own_wherever_they_stand(tmp_path: Path) -> None:
    one, two = "1" * 1_100_000, "2" * 1_200_000
    found = _spill(tmp_path, json.dumps({"a": [{"b": one}, "small"], "c": {"d": two}}).encode())
    assert found == {
        "a": [{"b": "[large: 1100000 bytes in large/7-1.txt]"}, "small"],
        "c": {"d": "[large: 1200000 bytes in large/7-2.txt]"},
    }
    assert (tmp_path / "large" / "7-2.txt").read_text() == two


def test_what_was_moved_is_for_its_owner_alone(tmp_path: Path) -> None:
    _spill(tmp_path, json.dumps(["x" * 1_100_000]).encode())
    modes = [oct(path.stat().st_mode & 0o777) for path in (tmp_path / "large", tmp_path / "large" / "7-1.txt")]
    assert modes == ["0o700", "0o600"]


@pytest.mark.parametrize("offset", range(-len(_SECRET), 1))
def test_a_secret_at_any_seam_of_a_large_text_is_redacted(tmp_path: Path, offset: int) -> None:
    seam = 256 * 1024
    text = "x" * (seam + offset) + _SECRET + "y" * 1_000_000
    _spill(tmp_path, json.dumps([text]).encode())
    kept = (tmp_path / "large" / "7-1.txt").read_text()
    assert _SECRET not in kept
    assert kept.startswith("x" * (seam + offset) + "[")
    assert kept.endswith("y" * 1_000_000)


def test_a_secret_with_an_escape_in_it_is_redacted(tmp_path: Path) -> None:
    secret = 'pass"word\\with/escapes'
    _spill(tmp_path, json.dumps(["x" * 1_000_000 + secret + "y" * 1000]).encode(), secret)
    assert secret not in (tmp_path / "large" / "7-1.txt").read_text()


def test_a_line_of_five_megabytes_is_one_event_with_a_file_beside_it(cli_env: CliEnv, fake: Fake) -> None:
    acts = f'begin()\nsay("a" * 2_500_000 + "{_SECRET}" + "b" * 2_500_000)\nsay("after")\nfinish()'
    env = {**fake_agent_env(fake, acts), "MY_API_KEY": _SECRET}
    code, _, err = run_fake_agent(cli_env, env)
    assert code == 0, err
    said = [event["text"] for event in cli_env.events() if event["kind"] == "text_said"]
    number = cli_env.kinds().index("text_said") + 1
    assert said == [f"[large: 5000023 bytes in large/{number}-1.txt]", "after"]
    kept = (cli_env.folder() / "large" / f"{number}-1.txt").read_text()
    assert kept.startswith("a" * 2_500_000)
    assert kept.endswith("b" * 2_500_000)
    leaks = [
        path.name for path in cli_env.folder().rglob("*") if path.is_file() and _SECRET.encode() in path.read_bytes()
    ]
    assert leaks == []


REFERENCE = "[large: 5 bytes in large/7-1.txt]"


@pytest.mark.parametrize(
    ("value", "restored"),
    [
        (REFERENCE, "words"),
        ({"a": [REFERENCE, 1], "b": None}, {"a": ["words", 1], "b": None}),
        (f'{{"a": ["{REFERENCE}"], "b": 1}}', '{"a":["words"],"b":1}'),
        (f"Look at {REFERENCE}.", f"Look at {REFERENCE}."),
        ("[large: 5 bytes in large/9-9.txt]", "[large: 5 bytes in large/9-9.txt]"),
        ("[large: 5 bytes in ../secret.txt]", "[large: 5 bytes in ../secret.txt]"),
        ('{"a": 1}', '{"a": 1}'),
        (5, 5),
    ],
    ids=["text", "value", "json-text", "quoted", "gone", "elsewhere", "plain-json", "number"],
)
def test_what_was_moved_is_put_back(tmp_path: Path, value: object, restored: object) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "7-1.txt").write_text("words")
    assert restore_large_texts(value, folder=str(tmp_path)) == restored


def test_a_text_that_is_nested_too_deeply_to_be_json_stays_as_it_is(tmp_path: Path) -> None:
    text = "[" * 100_000 + '"[large: 3 bytes in large/1-1.txt]"'
    assert restore_large_texts(text, folder=str(tmp_path)) == text
