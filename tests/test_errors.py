"""The tree of errors: each class has a code that stays, knows whether a retry helps, and speaks in whole sentences."""

import pickle
import re
from collections.abc import Iterator

import pytest

from inspan import errors
from inspan.errors import AgentFailed, BadInput, InspanError

# Programs rely on these words: a class may be added, none of these may change.
CODES = {
    "InspanError": ("inspan", False),
    "BadInput": ("bad_input", False),
    "UnknownAgent": ("unknown_agent", False),
    "Unsupported": ("unsupported", False),
    "BadConfig": ("bad_config", False),
    "BadScenario": ("bad_scenario", False),
    "AgentUnusable": ("agent_unusable", False),
    "AgentMissing": ("agent_missing", False),
    "AgentTooOld": ("agent_too_old", False),
    "AgentUntested": ("agent_untested", False),
    "NotAnAgent": ("not_an_agent", False),
    "HelperUnusable": ("helper_unusable", False),
    "CredentialsMissing": ("credentials_missing", False),
    "KeyUnusable": ("key_unusable", False),
    "SessionUnusable": ("session_unusable", False),
    "SessionNotFound": ("session_not_found", False),
    "SessionBusy": ("session_busy", True),
    "StateUnusable": ("state_unusable", False),
    "RunNotFound": ("run_not_found", False),
    "RunBusy": ("run_busy", True),
    "LogTooNew": ("log_too_new", False),
    "LogBroken": ("log_broken", False),
    "UndoRefused": ("undo_refused", False),
    "FileRefused": ("file_refused", False),
    "FileChanged": ("file_changed", True),
    "SessionClosed": ("session_closed", False),
    "CommandRefused": ("command_refused", False),
    "OutputRefused": ("output_refused", False),
    "SandboxUnusable": ("sandbox_unusable", False),
    "WorktreeUnusable": ("worktree_unusable", False),
    "BudgetSpent": ("budget_spent", False),
    "ServerUnreachable": ("server_unreachable", True),
    "AnswerLost": ("answer_lost", False),
    "ServerRefused": ("server_refused", False),
    "HarnessFault": ("harness_fault", True),
    "AgentFailed": ("agent_failed", False),
    "AuthenticationError": ("authentication", False),
    "RateLimitError": ("rate_limit", True),
    "NetworkError": ("network", True),
    "InvalidResponseError": ("invalid_response", True),
    "AgentEnvironmentError": ("environment", False),
    "ToolPermissionError": ("tool_permission", False),
    "RunCancelled": ("cancelled", False),
    "RunTimedOut": ("timed_out", True),
}


def _tree(error: type[InspanError], depth: int = 0) -> Iterator[tuple[int, type[InspanError]]]:
    yield depth, error
    for each in error.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from _tree(each, depth + 1)


ALL = [error for _, error in _tree(InspanError)]


def test_every_class_has_its_code_and_knows_whether_a_retry_helps() -> None:
    assert {error.__name__: (error.code, error.retry_helps) for error in ALL} == CODES
    assert len({error.code for error in ALL}) == len(ALL)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"^    ([ │├└─]*)(\w+)", errors.__doc__ or "", re.MULTILINE)
    assert [(len(branch) // 4, name) for branch, name in drawn] == [
        (depth, error.__name__) for depth, error in _tree(InspanError)
    ]


@pytest.mark.parametrize("error", ALL)
def test_every_class_says_when_it_is_raised(error: type[InspanError]) -> None:
    assert error.__doc__ and error.__doc__.rstrip().endswith(".")
    assert "__doc__" in vars(error)


def test_an_error_holds_what_was_tried_what_came_back_and_what_to_do() -> None:
    error = InspanError("It broke.", next_step="Mend it.", tried="mending", came_back="nothing")
    assert (error.message, error.next_step, error.tried, error.came_back) == (
        "It broke.",
        "Mend it.",
        "mending",
        "nothing",
    )
    assert str(error) == "It broke. Mend it."
    assert str(InspanError("It broke.")) == "It broke."


def test_bad_input_names_the_field_and_shows_the_value_but_not_all_of_a_long_one() -> None:
    error = BadInput("cwd", "/x", "no such folder.", next_step="Create it.")
    assert (error.field, error.value, str(error)) == ("cwd", "/x", "cwd '/x': no such folder. Create it.")
    long = BadInput("prompt", "x" * 10_000, "it is too long.")
    assert len(long.message) < 250
    assert long.value == "x" * 10_000


def test_what_the_agent_did_names_the_run_and_its_reason() -> None:
    error = AgentFailed("It left.", reason="crashed", run_id="r-1")
    assert (error.reason, error.run_id) == ("crashed", "r-1")
    assert AgentFailed("It left.").reason == "unknown"


@pytest.mark.parametrize(
    "error",
    [
        InspanError("It broke.", next_step="Mend it.", tried="mending", came_back="nothing"),
        BadInput("cwd", "/x", "no such folder.", next_step="Create it."),
        errors.RateLimitError("Wait.", reason="rate_limit", run_id="r-1"),
    ],
)
def test_an_error_reaches_another_process_whole(error: InspanError) -> None:
    if isinstance(error, errors.RateLimitError):
        error.resets_at = 5.0
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert (str(arrived), arrived.args, vars(arrived)) == (str(error), error.args, vars(error))
