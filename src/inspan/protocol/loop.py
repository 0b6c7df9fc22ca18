"""When a loop starts its agent again, and when it ends."""

from typing import Literal

import msgspec

Until = Literal["completed", "done_file"]


class LoopPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A loop has done its task once a run of it completed, with `until` `done_file` after its agent has written the
    file DONE, every one of `checks` passes, and the agent `verify`, where one is named, agrees.

    Until then it starts again, at most `max_restarts` times: in the same session, or anew where it is `fresh`. It waits
    `delay_s` before, twice as long after each failure in a row up to `longest_delay_s`. An agent that its provider
    limits gives way to the next of `agents` that is not; where there is none, the loop waits until the limit lifts, or
    as long as `rate_limit_backoff_s` says, the last of it again and again, where nobody said until when.

    It ends without success after `time_limit_s`, or when `no_progress` attempts in a row left the same files, the same
    failing check and the same error. `nonce` is what its agent is told to write into the file DONE.

    The files of `test_patch`, a patch for the commit that the agent's worktree began as, are in there while a check
    runs, and only then: no agent is shown them, and what it has put in their places does not count.
    """

    until: Until = "completed"
    checks: tuple[str, ...] = ()
    test_patch: str = ""
    check_timeout_s: float = 600.0
    verify: str = ""
    agents: tuple[str, ...] = ()
    max_restarts: int = 100
    fresh: bool = False
    delay_s: float = 1.0
    longest_delay_s: float = 60.0
    rate_limit_backoff_s: tuple[float, ...] = (30.0, 60.0, 120.0, 300.0)
    time_limit_s: float | None = None
    no_progress: int = 3
    nonce: str = ""
