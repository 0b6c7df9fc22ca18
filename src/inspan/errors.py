"""Every error that inspan raises, as one tree.

    InspanError
    ├── BadInput              a field of a task, flag or file that cannot be used
    │   ├── UnknownAgent
    │   └── BadScenario
    ├── AgentUnusable         the agent's program cannot do the work
    │   ├── AgentMissing
    │   ├── AgentTooOld
    │   └── NotAnAgent
    ├── CredentialsMissing
    ├── StateUnusable         the state folder cannot be read or written
    │   ├── RunNotFound
    │   ├── RunBusy
    │   ├── LogTooNew
    │   └── LogBroken
    ├── SandboxUnusable
    └── HarnessFault          inspan itself broke: a bug, never the agent's doing

The agent's own failures are no exceptions: they are outcomes of a run.
"""

from typing import ClassVar


class InspanError(Exception):
    """Has a stable `code`, a sentence, the next step, and says whether trying again can help."""

    code: ClassVar[str] = "inspan"
    retry_helps: ClassVar[bool] = False

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message} {self.next_step}".strip()


class BadInput(InspanError):
    """Names the field, the value that was given and what would be accepted."""

    code = "bad_input"

    def __init__(self, field: str, value: object, problem: str, *, next_step: str = "") -> None:
        super().__init__(f"{field} {_shown(value)}: {problem}", next_step=next_step)
        self.field = field
        self.value = value


class UnknownAgent(BadInput):
    """No driver has this name."""

    code = "unknown_agent"


class BadScenario(BadInput):
    """A scenario file that cannot be played."""

    code = "bad_scenario"


class AgentUnusable(InspanError):
    """The agent's program cannot be used as it is."""

    code = "agent_unusable"


class AgentMissing(AgentUnusable):
    """The agent's program was not found; the message lists where it was looked for."""

    code = "agent_missing"


class AgentTooOld(AgentUnusable):
    """The program is older than the oldest version that can work."""

    code = "agent_too_old"


class NotAnAgent(AgentUnusable):
    """There is a file, but it cannot be run or does not answer as this agent."""

    code = "not_an_agent"


class CredentialsMissing(InspanError):
    """Neither a key nor a login was found for the agent."""

    code = "credentials_missing"


class StateUnusable(InspanError):
    """The state folder, or a file in it, cannot be read or written."""

    code = "state_unusable"


class RunNotFound(StateUnusable):
    """No run, or more than one, answers to this name."""

    code = "run_not_found"


class RunBusy(StateUnusable):
    """Another process is writing this run."""

    code = "run_busy"
    retry_helps = True


class LogTooNew(StateUnusable):
    """The log was written by a newer inspan."""

    code = "log_too_new"


class LogBroken(StateUnusable):
    """A record in the middle of a log does not match its checksum."""

    code = "log_broken"


class SandboxUnusable(InspanError):
    """The sandbox that was asked for cannot be set up here."""

    code = "sandbox_unusable"


class HarnessFault(InspanError):
    """inspan broke; the run's folder holds what is known."""

    code = "harness_fault"
    retry_helps = True


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "…'"
