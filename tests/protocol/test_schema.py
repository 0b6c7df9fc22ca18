"""The schema version of a log: newer ones are refused in a sentence, older ones are lifted, and it is described."""

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from inspan.errors import LogTooNew
from inspan.protocol import wire
from inspan.protocol.events import Event, TextSaid
from inspan.protocol.wire import SCHEMA, encode, encode_record, json_schema
from inspan.stores.event_log import read_log

from .examples import ENDED, EXAMPLES, STARTED

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def _log(path: Path, *bodies: bytes) -> str:
    path.write_bytes(b"".join(encode_record(number, 1.0, body) for number, body in enumerate(bodies, 1)))
    return str(path)


def _encode(event: Event, **changes: object) -> bytes:
    return msgspec.json.encode({**msgspec.to_builtins(event), **changes})


def test_a_log_of_a_newer_schema_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = _log(tmp_path / "log", _encode(STARTED, schema=SCHEMA + 1))
    with pytest.raises(LogTooNew) as caught:
        read_log(path)
    assert str(caught.value) == (
        f"{path} has schema {SCHEMA + 1}; this inspan reads up to {SCHEMA}. Upgrade inspan to read this run."
    )


def test_a_newer_log_is_refused_even_when_its_first_event_is_not_understood(tmp_path: Path) -> None:
    path = _log(tmp_path / "log", b'{"kind":"run_began","schema":%d}' % (SCHEMA + 1))
    with pytest.raises(LogTooNew):
        read_log(path)


def test_a_log_of_an_older_schema_is_lifted_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def first(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "kind": "text_uttered"} if event["kind"] == "text_said_once" else event

    def second(event: dict[str, Any]) -> dict[str, Any]:
        if event["kind"] == "text_uttered":
            return {"kind": "text_said", "text": event["words"]}
        return {**event, "run_id": event.pop("run")} if "run" in event else event

    monkeypatch.setattr(wire, "_UPGRADES", {SCHEMA: first, SCHEMA + 1: second})
    monkeypatch.setattr(wire, "SCHEMA", SCHEMA + 2)
    old = msgspec.to_builtins(STARTED)
    old["run"] = old.pop("run_id")
    path = _log(
        tmp_path / "log",
        msgspec.json.encode(old),
        b'{"kind":"text_said_once","words":"hi"}',
        b'{"kind":"never_known"}',
        encode(ENDED),
    )
    events = [record.event for record in read_log(path)]
    assert [*events[:2], events[3]] == [STARTED, TextSaid(text="hi"), ENDED]


def test_a_log_that_only_says_that_its_run_was_lost_is_read(tmp_path: Path) -> None:
    path = _log(tmp_path / "log", encode(ENDED))
    assert [record.event for record in read_log(path)] == [ENDED]


def test_the_described_schema_names_its_version_and_lists_every_kind() -> None:
    schema = json_schema()
    assert schema["$id"] == f"inspan:events:{SCHEMA}"
    kinds = [str(msgspec.to_builtins(event)["kind"]) for event in EXAMPLES]
    assert sorted(schema["discriminator"]["mapping"]) == sorted(kinds)
    named = {name.removeprefix("#/$defs/") for name in schema["discriminator"]["mapping"].values()}
    assert named <= schema["$defs"].keys()


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: str(msgspec.to_builtins(event)["kind"]))
def test_the_described_schema_fits_real_events(event: Event) -> None:
    schema = json_schema()
    value = msgspec.json.decode(encode(event))
    chosen = {"$ref": schema["discriminator"]["mapping"][value["kind"]]}
    assert _problems(value, chosen, schema) == []


@pytest.mark.parametrize(
    ("event", "changes"),
    [(STARTED, {"run_id": 5}), (ENDED, {"outcome": "splendid"}), (ENDED, {"usage": {"input": "many"}})],
)
def test_the_described_schema_refuses_what_is_no_event(event: Event, changes: dict[str, object]) -> None:
    schema = json_schema()
    value = msgspec.json.decode(_encode(event, **changes))
    chosen = {"$ref": schema["discriminator"]["mapping"][value["kind"]]}
    assert _problems(value, chosen, schema)


def _problems(value: Any, rule: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """The part of JSON Schema that ours uses; a keyword that is not among it is a problem of its own."""
    if "$ref" in rule:
        return _problems(value, schema["$defs"][rule["$ref"].removeprefix("#/$defs/")], schema)
    if "anyOf" in rule:
        return [] if any(not _problems(value, each, schema) for each in rule["anyOf"]) else [f"{value!r} fits none"]
    known = {
        "title",
        "description",
        "type",
        "enum",
        "properties",
        "required",
        "default",
        "items",
        "additionalProperties",
    }
    found = [f"unknown keyword {keyword}" for keyword in rule.keys() - known]
    if "enum" in rule and value not in rule["enum"]:
        found.append(f"{value!r} is not among {rule['enum']}")
    if "type" in rule and not isinstance(value, _TYPES[rule["type"]]):
        return [*found, f"{value!r} is no {rule['type']}"]
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        properties = rule.get("properties", {})
        found += [f"{name} is missing" for name in rule.get("required", []) if name not in fields]
        found += [f"{name} is not described" for name in fields if properties and name not in properties]
        for name in fields.keys() & properties.keys():
            found += _problems(fields[name], properties[name], schema)
        for name in fields.keys() - properties.keys():
            found += _problems(fields[name], rule.get("additionalProperties") or {}, schema)
    if isinstance(value, list):
        for item in cast(list[Any], value):
            found += _problems(item, rule.get("items", {}), schema)
    return found
