"""The limits that inspan itself enforces on a run, whatever the agent does."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Seconds, and turns; `None` switches a limit off. `timeout_s` covers the whole run; in a session it and
    `max_turns` hold for each message, and neither idle time nor waiting for a person counts.

    `answer_timeout_s` is how long a question waits for an answer: 0 where nobody is there to give one. A session
    without a message for `idle_close_s` is closed. A hook has `hook_timeout_s`: a tool that it has not let through by
    then is denied, and an agent that waits for anything else goes on.

    `largest_answer` is how many tokens of output a budget sets aside for one model call, where the request allows more
    or says nothing.

    `memory_bytes`, `cpus` (of a processor's time, also a part of one) and `pids` (processes and their threads) are for
    all that a run starts, together.
    """

    timeout_s: float | None = 600.0
    start_timeout_s: float | None = 60.0
    idle_timeout_s: float | None = None
    stall_timeout_s: float | None = 120.0
    max_turns: int | None = None
    largest_answer: int | None = None
    answer_timeout_s: float | None = 600.0
    idle_close_s: float | None = 3600.0
    hook_timeout_s: float | None = 60.0
    memory_bytes: int | None = None
    cpus: float | None = None
    pids: int | None = None

    @property
    def resources(self) -> dict[str, float]:
        """Those of them that hold, by name."""
        found = {"memory_bytes": self.memory_bytes, "cpus": self.cpus, "pids": self.pids}
        return {name: value for name, value in found.items() if value is not None}


class WatchdogLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How long a run may be silent before something is done about it: `tool_s` while a tool is at work, `model_s`
    otherwise; `None` is no limit. A person, and a provider's limit, are waited for without one.

    Each step (a message into the turn, an interrupt, the end of the run) has `step_s` to help before the next one.
    The agent `triage`, where one is named, is asked once in each silence what is to be done, before the first of them.
    """

    model_s: float | None = 300.0
    tool_s: float | None = 1800.0
    step_s: float = 60.0
    triage: str = ""

    @property
    def has_limit(self) -> bool:
        """Whether there is any silence that is too long."""
        return self.model_s is not None or self.tool_s is not None


class Rates(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How fast all runs of this user together may ask one provider; `None` is no limit of ours.

    `longest_hold_s` is how long a call waits for a limit that the provider has told another run of; with more to wait,
    it is refused at once.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_calls: int | None = None
    longest_hold_s: float = 300.0


class Price(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a model costs, in dollars for a million tokens; a cache without a price of its own costs as input does."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class ShutdownTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long each step of ending a run may take before the next one is tried."""

    ask_s: float = 1.0
    interrupt_s: float = 3.0
    terminate_s: float = 2.0
    kill_s: float = 5.0
