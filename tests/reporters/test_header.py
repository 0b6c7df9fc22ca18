"""The first lines of a run say where it works, what it may do, by whose key its model is reached, and what ends it."""

from typing import Any

import msgspec
import pytest

from inspan.protocol.events import RunStarted
from inspan.reporters.header import describe_start

from .sample_events import run_started


def build(**changed: Any) -> RunStarted:
    return msgspec.structs.replace(run_started(), **changed)


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        ({}, "▶ anyone 1.2 · /w"),
        ({"agent_version": ""}, "▶ anyone · /w"),
        (
            {"model": "gpt-9", "access": "full", "credential": "key in A_KEY", "model_from": "live"},
            "▶ anyone 1.2 · gpt-9 · /w · full access, network open · key in A_KEY via gateway",
        ),
        (
            {"access": "full", "credential": "login in ~/.any/auth.json", "model_from": "direct"},
            "▶ anyone 1.2 · /w · full access, network open · login in ~/.any/auth.json direct",
        ),
        (
            {"access": "full", "credential": "key in A_KEY", "model_from": "record:/x/tape.jsonl"},
            "▶ anyone 1.2 · /w · full access, network open · key in A_KEY via gateway, recorded",
        ),
        ({"model_from": "replay:/x/tape.jsonl"}, "▶ anyone 1.2 · /w · replayed model tape.jsonl"),
        ({"access": "full", "ask": ["*"]}, "▶ anyone 1.2 · /w · full access, network open, asks first: *"),
        ({"access": "allowed_tools"}, "▶ anyone 1.2 · /w · allowed tools only, network open"),
        (
            {"access": "sandbox", "sandbox": "bwrap"},
            "▶ anyone 1.2 · /w · writes only in its folder (bwrap), network open",
        ),
        (
            {"mode": "review", "access": "read_only"},
            "▶ anyone 1.2 · /w · review · read only by the agent's own rules, network open",
        ),
        (
            {"mode": "review", "access": "read_only_sandbox", "sandbox": "bwrap"},
            "▶ anyone 1.2 · /w · review · read only (bwrap), network open",
        ),
        (
            {"access": "sandbox", "sandbox": "bwrap", "private": True, "net": "gateway"},
            "▶ anyone 1.2 · /w · writes only in its folder, sees it and the system alone (bwrap), "
            "reaches nothing but its model",
        ),
        (
            {"access": "sandbox", "sandbox": "bwrap", "private": True, "net": "allow=a.example,b.example:22"},
            "▶ anyone 1.2 · /w · writes only in its folder, sees it and the system alone (bwrap), "
            "reaches its model and a.example, b.example:22",
        ),
        (
            {"access": "sandbox", "sandbox": "bwrap", "private": True, "read": ["/a", "/b\nc"], "net": "none"},
            "▶ anyone 1.2 · /w · writes only in its folder, sees it, the system and /a, /b␊c (bwrap), no network",
        ),
        (
            {"access": "read_only_sandbox", "sandbox": "bwrap", "private": True, "net": "open"},
            "▶ anyone 1.2 · /w · read only, sees its folder and the system alone (bwrap), network open",
        ),
        ({"access": "remote", "private": True, "net": "gateway"}, "▶ anyone 1.2 · /w · no access to this machine"),
        ({"mode": "complete", "access": "no_tools"}, "▶ anyone 1.2 · /w · complete · no tools"),
        ({"access": "remote"}, "▶ anyone 1.2 · /w · no access to this machine"),
    ],
)
def test_the_first_line_is_what_is_true(changed: dict[str, Any], first: str) -> None:
    assert describe_start(build(**changed))[0] == first


@pytest.mark.parametrize(
    ("changed", "second"),
    [
        ({}, "  run hkb3 (20260101-000000000-1)"),
        ({"timeout_s": 600.0}, "  run hkb3 (20260101-000000000-1) · ends after 10m (--timeout)"),
        (
            {"timeout_s": 90.0, "session": True},
            "  run hkb3 (20260101-000000000-1) · each message ends after 1m30s (--timeout)",
        ),
        ({"timeout_s": 7200.0}, "  run hkb3 (20260101-000000000-1) · ends after 2h (--timeout)"),
        ({"timeout_s": 5.0}, "  run hkb3 (20260101-000000000-1) · ends after 5s (--timeout)"),
        (
            {"resources": {"memory_bytes": 4 * 1024**3, "cpus": 1.5, "pids": 512}},
            "  run hkb3 (20260101-000000000-1) · memory 4 GiB · 1.5 cpus · 512 processes",
        ),
        (
            {"budgets": {"run": "2usd", "project": "20usd/day"}},
            "  run hkb3 (20260101-000000000-1) · budget 2usd · project's budget 20usd/day",
        ),
    ],
)
def test_the_second_line_says_what_ends_it(changed: dict[str, Any], second: str) -> None:
    assert describe_start(build(**changed))[1] == second


def test_a_folder_below_home_is_told_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    folders = ("/home/ada/shop", "/home/ada", "/home/adam/shop", "/srv")
    told = [describe_start(build(cwd=folder))[0].rpartition(" · ")[2] for folder in folders]
    assert told == ["~/shop", "~", "/home/adam/shop", "/srv"]
