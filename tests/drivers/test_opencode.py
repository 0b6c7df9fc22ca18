"""OpenCode 1.18.33 with inspan's plugin, as recorded; `pure` is the program without it."""

import json
from typing import Any

import pytest

from inspan.contracts.driver import match_failure
from inspan.drivers.opencode import DRIVER
from inspan.folds.summary import summarize
from inspan.protocol.events import (
    CommandExecuted,
    ErrorReported,
    Event,
    FileChanged,
    McpServerFailed,
    PlanChanged,
    PlanStep,
    ReasoningSaid,
    TextDelta,
    TextSaid,
    ThreadStarted,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Unrecognized,
)
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals, Usage

from .frames import events_of, kinds_of, names

WORK = (
    "ThreadStarted TurnStarted ReasoningSaid TextSaid ToolStarted ToolCompleted CommandExecuted ToolStarted "
    "ToolCompleted FileChanged ToolStarted ToolCompleted FileChanged ToolStarted ToolCompleted FileChanged TextSaid "
    "TurnCompleted"
)
FAILURES = {
    "e401": ("authentication", 401, "Invalid API key."),
    "e401-pure": ("authentication", 401, "Invalid API key."),
    "e404": ("model_not_found", 404, "The model does not exist or you do not have access to it."),
    "e429": ("rate_limit", None, "Rate limit reached."),
    "e500": ("overloaded", None, "Internal server error."),
    "e529": ("overloaded", None, "Provider is overloaded"),
    "context": ("context_too_long", None, "prompt is too long: 300000 tokens > 200000 maximum"),
    "garbage": ("invalid_response", None, "the model's answer was empty or unreadable"),
}


def of(name: str, *kinds: type[Event]) -> list[Event]:
    return [event for event in events_of(DRIVER, name) if isinstance(event, kinds)]


@pytest.mark.parametrize("name", ["work", "pure"])
def test_the_story_is_the_same_with_the_plugin_and_without_and_nothing_is_told_twice(name: str) -> None:
    assert kinds_of(DRIVER, name) == WORK
    assert of(name, ReasoningSaid, TextSaid) == [
        ReasoningSaid(text="pondering"),
        TextSaid(text="All right."),
        TextSaid(text="Finished."),
    ]
    assert [(event.path, event.change) for event in of(name, FileChanged) if isinstance(event, FileChanged)] == [
        ("/WORK/written.txt", "added"),
        ("/WORK/edited.txt", "modified"),
        ("/WORK/replaced.txt", "added"),
    ]


@pytest.mark.parametrize("name", ["work", "pure"])
def test_a_turn_has_the_tokens_of_all_its_steps_and_its_output_includes_reasoning(name: str) -> None:
    assert events_of(DRIVER, name)[-1] == TurnCompleted(
        usage=Usage(input=500, output=35, cache_read=100, cache_write=50, reasoning=15), cost_usd=0.0022425
    )


def test_the_first_word_of_the_plugin_names_session_and_model() -> None:
    assert events_of(DRIVER, "work")[:2] == [
        ThreadStarted(session_id="ses_e1fb11319ffeVVlPM6MqVSxjDt", model="claude-sonnet-4-6"),
        TurnStarted(),
    ]


def test_without_the_plugin_the_model_is_the_one_that_was_asked_for() -> None:
    assert events_of(DRIVER, "pure", model="anthropic/m")[0] == ThreadStarted(
        session_id="ses_e1fb06c70ffeHlBEBrVPmbjSrt", model="anthropic/m"
    )


def test_pieces_of_text_come_before_the_whole_and_pieces_of_reasoning_do_not_come() -> None:
    block = "prt_1e04fdfa60017E6uM0I0P0ljy5"
    assert of("partial", ReasoningSaid, TextDelta, TextSaid) == [
        ReasoningSaid(text="hm"),
        TextDelta(block=block, text="Hel"),
        TextDelta(block=block, text="lo"),
        TextSaid(text="Hello"),
    ]


def test_a_command_that_fails_is_a_failed_call_with_its_exit_code() -> None:
    call = "toolu_bec255534320d53b9bcf9b16"
    assert of("failing-command", ToolFailed, ToolCompleted, CommandExecuted) == [
        ToolFailed(id=call, name="bash", output="out\nerr\n"),
        CommandExecuted(id=call, command="echo out; echo err >&2; exit 3", exit_code=3),
    ]


@pytest.mark.parametrize(("name", "expected"), FAILURES.items())
def test_a_failed_turn_is_told_once_with_its_kind_whatever_the_exit_code(
    name: str, expected: tuple[str, int | None, str]
) -> None:
    failed = [event for event in events_of(DRIVER, name) if isinstance(event, TurnFailed)]
    assert [(event.failure, event.status, event.message) for event in failed] == [expected]
    assert summarize(events_of(DRIVER, name)).turn_done is False


def test_a_cut_connection_is_the_networks_failure() -> None:
    (failed,) = of("cut", TurnFailed)
    assert isinstance(failed, TurnFailed)
    assert (failed.failure, failed.message.partition(":")[0]) == ("network", "Cannot connect to API")


def test_what_is_said_after_a_failure_is_a_report_and_no_second_failure() -> None:
    assert of("garbage", ErrorReported) == [ErrorReported(message="Aborted")]


def test_calls_that_its_rules_forbid_are_denied_calls() -> None:
    summary = summarize(events_of(DRIVER, "denied"))
    assert [(call.name, call.input) for call in summary.denials] == [
        ("bash", {"command": "rm -f x"}),
        ("bash", {"command": "git status > y"}),
    ]
    assert of("denied", CommandExecuted) == []


def test_a_call_of_a_tool_that_was_taken_away_is_denied_under_its_own_name() -> None:
    words = "The arguments provided to the tool are invalid: Model tried to call unavailable tool 'write'. Available …"
    state: dict[str, Any] = {"status": "completed", "input": {"tool": "write", "error": "…"}, "output": words}
    part = {"type": "tool", "id": "p1", "tool": "invalid", "callID": "c1", "state": state}
    assert _events({"type": "tool_use", "sessionID": "S", "part": part})[2:] == [
        ToolStarted(id="c1", name="write", input={"tool": "write", "error": "…"}),
        ToolFailed(id="c1", name="write", output=words, denied=True),
    ]


def test_a_server_that_is_not_there_is_missed_and_the_tool_of_another_works() -> None:
    assert of("servers", McpServerFailed, ToolCompleted) == [
        McpServerFailed(name="gone", message="ENOENT: no such file or directory, posix_spawn '/nonexistent'"),
        ToolCompleted(id="toolu_1446816375454b4338ec1e5d", name="box_echo", output="echo: hello"),
    ]


def test_what_a_subagent_does_is_told_below_its_call_and_counted() -> None:
    call = "toolu_f58d23e2e2ab3ce08c4a7cc6"
    told = [event for event in events_of(DRIVER, "subagent") if isinstance(event, ToolStarted | TextSaid)]
    assert [(type(event).__name__, event.parent) for event in told] == [
        ("ToolStarted", ""),
        ("ToolStarted", call),
        ("TextSaid", call),
        ("TextSaid", ""),
    ]
    usage = Usage(input=400, output=28, cache_read=80, cache_write=40, reasoning=12)
    assert of("subagent", TurnCompleted) == [TurnCompleted(usage=usage, cost_usd=0.001794)]


def test_a_patch_tells_every_file_and_what_became_of_it() -> None:
    call = "call_4367db46d698c4b63bf90fb5"
    assert of("patch", FileChanged) == [
        FileChanged(path="/WORK/new.txt", change="added", id=call),
        FileChanged(path="/WORK/edited.txt", change="modified", id=call),
        FileChanged(path="/WORK/old.txt", change="deleted", id=call),
    ]


def test_its_list_of_things_to_do_is_a_plan() -> None:
    steps = [PlanStep(text="one", state="done"), PlanStep(text="two", state="active"), PlanStep(text="three")]
    assert of("plan", PlanChanged) == [PlanChanged(steps=steps)]


def test_a_step_after_the_end_of_a_turn_is_another_turn() -> None:
    def step(kind: str, number: int) -> dict[str, Any]:
        part = {"type": f"step-{kind}", "id": f"{kind}{number}", "sessionID": "S", "reason": "stop"}
        return {"type": "step_start" if kind == "start" else "step_finish", "sessionID": "S", "part": part}

    frames = [step("start", 1), step("finish", 1), step("start", 1), step("start", 2), step("finish", 2)]
    assert _events(*frames) == [
        ThreadStarted(session_id="S"),
        TurnStarted(),
        TurnCompleted(usage=Usage()),
        TurnStarted(),
        TurnCompleted(usage=Usage()),
    ]


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("ContextOverflowError", {"message": "too much"}, "context_too_long"),
        ("ProviderAuthError", {"message": "no"}, "authentication"),
        ("ProviderModelNotFoundError", {"modelID": "m"}, "model_not_found"),
        ("ContentFilterError", {}, "refused"),
        ("APIError", {"message": "sorry", "statusCode": 503}, "overloaded"),
        ("UnknownError", {"message": "Unexpected server error. Check server logs for details."}, "environment"),
        ("UnknownError", {"message": "odd"}, "unknown"),
    ],
)
def test_an_error_tells_its_kind_by_its_name_its_status_or_its_words(
    name: str, data: dict[str, Any], kind: str
) -> None:
    (failed,) = _events({"type": "error", "sessionID": "S", "error": {"name": name, "data": data}})[2:]
    assert isinstance(failed, TurnFailed)
    assert failed.failure == kind


def test_an_answer_that_the_provider_holds_back_is_a_refusal() -> None:
    part = {"type": "step-finish", "id": "p", "sessionID": "S", "reason": "content-filter"}
    (failed,) = _events({"type": "step_finish", "sessionID": "S", "part": part})[2:]
    assert isinstance(failed, TurnFailed)
    assert failed.failure == "refused"


@pytest.mark.parametrize("name", names("opencode"))
def test_every_recorded_frame_is_understood(name: str) -> None:
    assert of(name, Unrecognized) == []


@pytest.mark.parametrize("part", [None, {"type": "dream", "id": "p"}])
def test_a_part_that_nobody_knows_is_kept(part: dict[str, Any] | None) -> None:
    (event,) = _events({"type": "text", "sessionID": "S", "part": part})[2:]
    assert isinstance(event, Unrecognized)


@pytest.mark.parametrize("frame", [b"not json", b"{}", b'{"type":"dream"}', b'{"type":5}', b"\xff", b"! a notice"])
def test_an_unknown_frame_is_kept_as_it_came(frame: bytes) -> None:
    (event,) = DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals()).receive(frame).events
    assert isinstance(event, Unrecognized)
    assert event.raw == frame.decode(errors="replace")


@pytest.mark.parametrize("number", [401, 404, 429, 500, 509, 529])
def test_a_number_in_a_path_is_no_status(number: int) -> None:
    assert match_failure(DRIVER.failures, f"wrote /state/sessions/20261115-103557{number}-{number}/config.json") is None


def test_a_session_that_it_does_not_know_is_told_by_its_last_words() -> None:
    assert match_failure(DRIVER.failures, "Error: Session not found") == "session_not_found"


def _events(*frames: dict[str, Any]) -> list[Event]:
    dialect = DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals())
    return [event for frame in frames for event in dialect.receive(json.dumps(frame).encode()).events]


def test_settings_of_the_user_that_cannot_be_read_are_named() -> None:
    line = "Error: Config file at /HOME/.config/opencode/opencode.json is not valid JSON(C): "
    assert match_failure(DRIVER.failures, line) == "environment"
