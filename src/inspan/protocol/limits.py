"""The limits that inspan itself enforces on a run, whatever the agent does."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Seconds, and turns; `None` switches a limit off. `timeout_s` covers the whole run."""

    timeout_s: float | None = 600.0
    start_timeout_s: float | None = 60.0
    idle_timeout_s: float | None = None
    stall_timeout_s: float | None = 120.0
    max_turns: int | None = None


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How long each step of ending a run may take before the next one is tried."""

    ask_s: float = 1.0
    interrupt_s: float = 3.0
    terminate_s: float = 2.0
    kill_s: float = 5.0
