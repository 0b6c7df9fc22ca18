"""Every error that inspan raises, as one tree.

    InspanError
    ├── BadInput              a field of a task, flag or file that cannot be used
    │   ├── UnknownAgent
    │   ├── Unsupported
    │   ├── BadConfig
    │   └── BadScenario
    ├── AgentUnusable         the agent's program cannot do the work
    │   ├── AgentMissing
    │   ├── AgentTooOld
    │   ├── AgentUntested
    │   ├── NotAnAgent
    │   └── HelperUnusable
    ├── CredentialsMissing    neither a key nor a login
    │   └── KeyUnusable       a place where the key should be does not give it
    ├── SessionUnusable       the session that was to be continued cannot be
    │   ├── SessionNotFound
    │   └── SessionBusy
    ├── StateUnusable         the state folder cannot be read or written
    │   ├── RunNotFound
    │   ├── RunBusy
    │   ├── LogTooNew
    │   └── LogBroken
    ├── UndoRefused           a run's changes cannot be taken back, or brought in again, as the files are now
    ├── FileRefused           a file of `file-tools` cannot be read or written as asked
    │   └── FileChanged       somebody else was quicker
    ├── SessionClosed         an open session takes no more messages
    ├── CommandRefused        an open session did not do what it was told
    ├── OutputRefused         what a command prints cannot be written
    ├── SandboxUnusable
    ├── WorktreeUnusable      a git worktree cannot be made, or cannot be removed without losing something
    ├── BudgetSpent           a budget has nothing left for another run
    ├── ServerUnreachable     a server of inspan's does not answer
    │   └── AnswerLost        what it was asked may have been done all the same
    ├── ServerRefused         a server of inspan's does not do this, or not for whoever asks
    ├── HarnessFault          inspan itself broke: a bug, never the agent's doing
    └── AgentFailed           what the agent did, for those who ask a result to raise it
        ├── AuthenticationError
        ├── RateLimitError
        ├── NetworkError
        ├── InvalidResponseError
        ├── AgentEnvironmentError
        ├── ToolPermissionError
        ├── RunCancelled
        └── RunTimedOut

The agent's own failures are never raised by running it: they are outcomes of a run. `AgentResult.errors` holds them as
values of the last branch, and `AgentResult.check()` raises the first.
"""

# Start-up time: `inspan file-tools` loads this and little else, and `typing` would take longer than all of it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, ClassVar


class InspanError(Exception):
    """Has a stable `code`, a sentence, the next step, and says whether trying again can help.

    `tried` is what was being done and `came_back` what answered, where the sentence alone does not hold them.
    """

    code: "ClassVar[str]" = "inspan"
    retry_helps: "ClassVar[bool]" = False

    def __init__(self, message: str, *, next_step: str = "", tried: str = "", came_back: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step
        self.tried = tried
        self.came_back = came_back

    def __str__(self) -> str:
        return f"{self.message} {self.next_step}".strip()

    def __reduce__(self) -> "tuple[Any, ...]":
        """So that a worker process can hand it to its parent, whatever its class takes to be made."""
        return _rebuild, (type(self), self.args), vars(self)


class BadInput(InspanError):
    """Names the field, the value that was given and what would be accepted."""

    code = "bad_input"

    def __init__(self, field: str, value: object, problem: str, *, next_step: str = "") -> None:
        super().__init__(f"{field} {_format_value(value)}: {problem}", next_step=next_step)
        self.field = field
        self.value = value


class UnknownAgent(BadInput):
    """No driver has this name."""

    code = "unknown_agent"


class Unsupported(BadInput):
    """The agent has nothing that does what was asked for."""

    code = "unsupported"


class BadConfig(BadInput):
    """A key, a value or a file of the configuration that cannot be used."""

    code = "bad_config"


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


class AgentUntested(AgentUnusable):
    """The program's version was not tested, and the run was to be strict about it."""

    code = "agent_untested"


class NotAnAgent(AgentUnusable):
    """There is a file, but it cannot be run or does not answer as this agent."""

    code = "not_an_agent"


class HelperUnusable(AgentUnusable):
    """A program that the task grants the agent, such as `inspan file-tools`, cannot be started by it."""

    code = "helper_unusable"


class CredentialsMissing(InspanError):
    """Neither a key nor a login was found for the agent."""

    code = "credentials_missing"


class KeyUnusable(CredentialsMissing):
    """The file, command or keyring that should give the key does not."""

    code = "key_unusable"


class SessionUnusable(InspanError):
    """The session that was to be continued cannot be."""

    code = "session_unusable"


class SessionNotFound(SessionUnusable):
    """No session answers to this name, or it has been deleted."""

    code = "session_not_found"


class SessionBusy(SessionUnusable):
    """Another run is using this session."""

    code = "session_busy"
    retry_helps = True


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


class UndoRefused(InspanError):
    """A run's changes cannot be taken back, or brought in again; nothing was changed. `files` are those in question."""

    code = "undo_refused"

    def __init__(self, message: str, *, next_step: str = "", files: "Sequence[str]" = ()) -> None:
        super().__init__(message, next_step=next_step)
        self.files = list(files)


class FileRefused(InspanError):
    """A file beneath the root of `file-tools` cannot be read or written as asked: nothing was changed."""

    code = "file_refused"


class FileChanged(FileRefused):
    """Somebody else has written, or is writing, the file that was to be changed."""

    code = "file_changed"
    retry_helps = True


class SessionClosed(InspanError):
    """The session takes no more messages: it was closed, or its agent has left."""

    code = "session_closed"


class CommandRefused(InspanError):
    """An open session did not carry out a command; the sentence says why."""

    code = "command_refused"


class OutputRefused(InspanError):
    """What a command prints cannot be written. `is_closed` where nobody reads any more, as behind `| head`.

    `run_id` is the run that the command was following; the run goes on.
    """

    code = "output_refused"

    def __init__(self, message: str, *, next_step: str = "", is_closed: bool = False, run_id: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.is_closed = is_closed
        self.run_id = run_id


class SandboxUnusable(InspanError):
    """The sandbox that was asked for cannot be set up here."""

    code = "sandbox_unusable"


class WorktreeUnusable(InspanError):
    """A git worktree of a run cannot be made, or cannot be removed without losing something; then it is as it was."""

    code = "worktree_unusable"


class BudgetSpent(InspanError):
    """A budget has nothing left for another run."""

    code = "budget_spent"


class ServerUnreachable(InspanError):
    """No answer came from a server of inspan's, or none that is its own."""

    code = "server_unreachable"
    retry_helps = True


class AnswerLost(ServerUnreachable):
    """A request that changes something was sent, and no answer came: nobody here knows whether it was done."""

    code = "answer_lost"
    retry_helps = False


class ServerRefused(InspanError):
    """The server does not do this, or not for whoever asks: the token, the address, a limit, a server that only shows.

    `status` is that of its answer.
    """

    code = "server_refused"
    status: int = 0


class HarnessFault(InspanError):
    """inspan broke; the run's folder holds what is known."""

    code = "harness_fault"
    retry_helps = True


class AgentFailed(InspanError):
    """The agent did not do what was asked; `reason` is the run's, `run_id` names the run."""

    code = "agent_failed"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "unknown",
        run_id: str = "",
        next_step: str = "",
        tried: str = "",
        came_back: str = "",
    ) -> None:
        super().__init__(message, next_step=next_step, tried=tried, came_back=came_back)
        self.reason = reason
        self.run_id = run_id


class AuthenticationError(AgentFailed):
    """The provider refused the key or the login."""

    code = "authentication"


class RateLimitError(AgentFailed):
    """The provider said to wait; `resets_at` is seconds since 1970 where it said until when."""

    code = "rate_limit"
    retry_helps = True
    resets_at: float | None = None


class NetworkError(AgentFailed):
    """The connection to the model broke, or the provider was overloaded."""

    code = "network"
    retry_helps = True


class InvalidResponseError(AgentFailed):
    """What came back could not be used: no answer, garbage, or an answer that does not fit its schema."""

    code = "invalid_response"
    retry_helps = True


class AgentEnvironmentError(AgentFailed):
    """The agent could not work here, or left before it was done."""

    code = "environment"


class ToolPermissionError(AgentFailed):
    """Calls of tools were denied; `denied` lists them, also those of tools that had been taken away."""

    code = "tool_permission"
    denied: "Sequence[object]" = ()


class RunCancelled(AgentFailed):
    """Somebody ended the run."""

    code = "cancelled"


class RunTimedOut(AgentFailed):
    """A time limit ended the run."""

    code = "timed_out"
    retry_helps = True


def _rebuild(kind: type[InspanError], arguments: "tuple[Any, ...]") -> InspanError:
    error = kind.__new__(kind)
    error.args = arguments
    return error


def _format_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "…'"
