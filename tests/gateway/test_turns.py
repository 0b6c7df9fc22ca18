"""A limit on model calls: so many are answered, the next is refused and told of, and nothing else is counted."""

import pytest

from .scripted_gateway import WIRES, ScriptedGateway

# What makes the agents of a wire stop at once, as measured on eight of them.
STOPS = {
    "messages": (402, "billing_error"),
    "responses": (400, "invalid_request_error"),
    "chat": (402, "insufficient_quota"),
    "generate": (402, "FAILED_PRECONDITION"),
}

ALWAYS = '[[call]]\nsay = "a"\nrepeat = "always"\n'


@pytest.mark.parametrize("wire", WIRES)
def test_calls_past_the_limit_are_refused_for_good_and_told_of_once(wire: str) -> None:
    status, kind = STOPS[wire]
    with ScriptedGateway(ALWAYS, most_calls=2) as stage:
        answers = [stage.ask(wire) for _ in range(4)]
        calls = [stage.next_call() for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, status, status]
    error = answers[2].json["error"]
    assert error["status" if wire == "generate" else "type"] == kind
    assert stage.excesses == 1
    assert [(call.status, call.problem) for call in calls] == [
        (200, ""),
        (200, ""),
        (status, "refused: turns"),
        (status, "refused: turns"),
    ]
    assert calls[2].message == "This run may make 2 model calls, and has made them."


def test_counting_tokens_and_listing_models_are_no_turns() -> None:
    with ScriptedGateway(ALWAYS, most_calls=1) as stage:
        for method, path in (("POST", "/v1/messages/count_tokens"), ("GET", "/v1/models"), ("HEAD", "/")):
            assert stage.send(method, path, body={} if method == "POST" else b"").status == 200
        assert stage.ask("messages").status == 200
    assert stage.excesses == 0
