"""The profile for macOS, as text: no test here can run it."""

import msgspec
import pytest

from inspan.contracts.sandbox import Box, GitFolders
from inspan.errors import BadInput, SandboxUnusable
from inspan.protocol.network import parse_network
from inspan.sandboxes.seatbelt import SANDBOX, build_profile, quote

BOX = Box(
    cwd="/w",
    private=True,
    home="/home/me",
    programs=("/home/me/.cargo/bin",),
    readable=("/shown",),
    hidden=("/w/state",),
    repositories=(GitFolders(top="/w", git_dir="/w/.git", common="/w/.git"),),
    network=parse_network("none"),
)


def test_everything_is_denied_but_what_the_box_says() -> None:
    lines = build_profile(BOX).splitlines()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    assert '(allow file-read* file-write* (subpath "/w"))' in lines
    assert '(allow file-read* (subpath "/home/me/.cargo/bin"))' in lines
    assert '(allow file-read* (subpath "/shown"))' in lines
    assert not [line for line in lines if "file-write*" in line and "/shown" in line]
    assert not [line for line in lines if '"/home/me"' in line or '"/"' in line]


def test_what_is_denied_stands_behind_what_is_allowed() -> None:
    lines = build_profile(BOX).splitlines()
    working = lines.index('(allow file-read* file-write* (subpath "/w"))')
    denied = [line for line in lines[working:] if line.startswith("(deny")]
    assert '(deny file-write* (subpath "/w/.git/hooks"))' in denied
    assert '(deny file-write* (subpath "/w/.git/config"))' in denied
    assert denied[-1] == '(deny file-read* file-write* (subpath "/w/state"))'
    assert not [line for line in lines[lines.index(denied[0]) :] if line.startswith("(allow file")]


def test_a_folder_that_is_read_only_cannot_be_written() -> None:
    lines = build_profile(msgspec.structs.replace(BOX, read_only=True)).splitlines()
    assert '(allow file-read* (subpath "/w"))' in lines
    assert '(allow file-read* file-write* (subpath "/w"))' not in lines


@pytest.mark.parametrize(
    ("net", "rules"),
    [
        ("none", []),
        ("gateway", ['(allow network-outbound (remote ip "localhost:4711"))']),
        ("open", ["(allow network*)"]),
    ],
)
def test_the_network_is_what_was_asked_for(net: str, rules: list[str]) -> None:
    box = msgspec.structs.replace(BOX, network=parse_network(net), ports=(4711,))
    assert [line for line in build_profile(box).splitlines() if "network" in line] == rules


def test_a_path_cannot_end_its_rule() -> None:
    assert quote('/a"))(allow default)\\') == '"/a\\"))(allow default)\\\\"'
    with pytest.raises(BadInput, match="line end"):
        build_profile(msgspec.structs.replace(BOX, cwd="/a\n(allow default)"))


def test_it_is_refused_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "plan9")
    with pytest.raises(SandboxUnusable, match="macOS's own; this is plan9"):
        SANDBOX.check(BOX)
