"""What `sandbox` says: a place, a boundary, or both."""

import pytest

from inspan.contracts.places import SandboxParts, parse_sandbox
from inspan.errors import BadInput

KNOWN = ("bwrap", "none")


@pytest.mark.parametrize(
    ("text", "place", "boundary"),
    [
        ("worktree", "worktree", ""),
        ("bwrap", "", "bwrap"),
        ("none", "", "none"),
        ("worktree+bwrap", "worktree", "bwrap"),
        ("bwrap+worktree", "worktree", "bwrap"),
        ("worktree+none", "worktree", "none"),
        ("worktree+auto", "worktree", "auto"),
        ("auto", "", "auto"),
    ],
)
def test_a_place_and_a_boundary_are_joined_in_any_order(text: str, place: str, boundary: str) -> None:
    assert parse_sandbox(text, boundaries=KNOWN) == SandboxParts(place, boundary)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tent", "unknown sandbox."),
        ("", "unknown sandbox."),
        ("worktree+tent", "'tent' is no part of a sandbox."),
        ("worktree+", "'' is no part of a sandbox."),
        ("+bwrap", "'' is no part of a sandbox."),
        ("worktree+worktree", "it names more than one place: worktree, worktree."),
        ("bwrap+none", "it names more than one boundary: bwrap, none."),
        ("worktree+bwrap+none", "it names more than one boundary: bwrap, none."),
        ("Worktree", "unknown sandbox."),
    ],
)
def test_anything_else_is_refused_with_what_is_known(text: str, problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_sandbox(text, boundaries=KNOWN)
    assert caught.value.message == f"sandbox {text!r}: {problem}"
    assert caught.value.next_step == "Known sandboxes: auto, bwrap, none, worktree; worktree+bwrap joins two."
