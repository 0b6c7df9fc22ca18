"""What `sandbox` says: a place to work in, a boundary around the agent, or both, joined by `+`."""

from collections.abc import Sequence
from typing import NamedTuple

from inspan.errors import BadInput

WORKTREE = "worktree"
PLACES = (WORKTREE,)
AUTO = "auto"
"""The boundary that the agent needs, if any."""
_JOINT = "+"


class SandboxParts(NamedTuple):
    """The two parts of a sandbox; an empty `place` is the folder itself, an empty `boundary` what the agent needs."""

    place: str = ""
    boundary: str = ""


def parse_sandbox(text: str, *, boundaries: Sequence[str]) -> SandboxParts:
    """Reads `worktree`, `bwrap` or `worktree+bwrap`; raises `BadInput` for anything else."""
    boundaries = (*boundaries, AUTO)
    words = text.split(_JOINT)
    for word in words:
        if word not in (*PLACES, *boundaries):
            problem = "unknown sandbox." if word == text else f"{word!r} is no part of a sandbox."
            raise _refuse(text, problem, boundaries)
    for kind, known in (("place", PLACES), ("boundary", boundaries)):
        if len(named := [word for word in words if word in known]) > 1:
            raise _refuse(text, f"it names more than one {kind}: {', '.join(named)}.", boundaries)
    return SandboxParts(
        place=next((word for word in words if word in PLACES), ""),
        boundary=next((word for word in words if word in boundaries), ""),
    )


def _refuse(text: str, problem: str, boundaries: Sequence[str]) -> BadInput:
    known = (
        f"Known sandboxes: {', '.join(sorted((*boundaries, *PLACES)))}; {PLACES[0]}{_JOINT}{boundaries[0]} joins two."
    )
    return BadInput("sandbox", text, problem, next_step=known)
