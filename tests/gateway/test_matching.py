"""What a request is compared by: alike in spite of what changes from run to run, different in all that matters."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.gateway.cassettes import rules
from inspan.gateway.cassettes.cassette import Part, RecordedRequest
from inspan.gateway.cassettes.comparison import MAX_TEXT_LENGTH, RequestNormalizer, describe_difference, match_key
from inspan.gateway.cassettes.last_turn import parse_last_turn
from inspan.gateway.cassettes.path_placeholders import PathPlaceholders
from inspan.gateway.cassettes.rules import RULES, Rule, normalize_text
from inspan.gateway.upstream import Ask, Request
from inspan.redaction import SecretSet

DOCS = Path(__file__).parents[2] / "docs"
HERE = {"cwd": "/srv/here/work", "home": "/home/someone"}
THERE = {"cwd": "/mnt/elsewhere", "home": "/root"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_does_what_its_example_says(rule: Rule) -> None:
    assert normalize_text(rule.example, is_result=True) == rule.example_result
    assert normalize_text(rule.example, is_result=False) == (rule.example if rule.results_only else rule.example_result)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-11-15T14:25:18.123Z", "<time>"),
        ("2026-11-15 14:32:06 UTC", "<time>"),
        ("2026-11-15 14:32:06,123 INFO", "<time> INFO"),
        ("2026-11-15T14:25:18+01:00", "<time>"),
        ("Sun, 15 Nov 2026 14:25:18 GMT", "<time>"),
        ("Sun Nov 15 02:25:18 PM CET 2026", "<time>"),
        ("-rw-r--r-- 1 me me 4 Nov 15 14:25 a.txt", "-rw-r--r-- 1 me me 4 <time> a.txt"),
        ("-rw-r--r-- 1 me me 4 Nov  5  2026 a.txt", "-rw-r--r-- 1 me me 4 <date> a.txt"),
        ("11/15/2026, 2:25:18 PM", "<time>"),
        ("November 15, 2026", "<date>"),
        ("15 November 2026", "<date>"),
        ("commit 1d741f90ce8247e9805d4ae4fdb9b54b00000000", "commit <hex>"),
        ("<object at 0x7f3a2b1c5d60>", "<object at <hex>>"),
        (
            r"{\"chunk_id\":\"0118b0\",\"wall_time_seconds\":1.6e-05}",
            r"{\"chunk_id\":\"<id>\",\"wall_time_seconds\":<duration>}",
        ),
        ("Wall time 0.4 seconds", "Wall time <duration>"),
        ("real\t0m0.005s", "real\t<duration>"),
        ("Finished in 12 ms", "Finished in <duration>"),
        ("(original token count: 27224)", "(original token count: <count>)"),
        ("…12 tokens truncated…", "…<count> tokens truncated…"),
        ("Process running with session ID 35427", "Process running with session ID <number>"),
        ("running in background with ID: b1a2b3c.", "running in background with ID: <number>."),
        ("x/tool-results/b9npkzj9u.txt", "x/tool-results/<number>.txt"),
        ("created /x/tmpab12cd_4/y", "created /x/<temporary>/y"),
        (r'{"output":"a\n1d741f90-ce82-47e9-805d-4ae4fdb9b54b\n"}', '{"output":"a\n<uuid>\n"}'),
        ("<usage>subagent_tokens: 15\nduration_ms: 139</usage>", "<id>"),
        ("Original token count: 45toolu_4c0f714e2a8a5675109ab122", "Original token count: <count><id>"),
        ("a<system-reminder>x\ny</system-reminder>b", "a\nb"),
        ("# AGENTS.md instructions for /x/y\n\n<INSTRUCTIONS>\nbe kind\n</INSTRUCTIONS>", ""),
        ("<environment_context>\n  <cwd>/x</cwd>\n</environment_context>", ""),
    ],
)
def test_what_changes_from_run_to_run_is_replaced(text: str, shown: str) -> None:
    assert normalize_text(text, is_result=True) == shown


@pytest.mark.parametrize(
    "text",
    [
        "call_arguments and call_parameters",
        "version 1.2.3 of 17 files, 80% done",
        "exit code 1",
        "a face in a facade, deadbeef",
        "port 8080 of example.org:8080",
        "1234567 is a number",
        "line 12:34 of main.py",
        "Process exited with code 3",
        "an unclosed <system-reminder> stays",
        "6 items, 12 sheep",
        "tmpfiles and tmpdir",
    ],
)
def test_what_stays_the_same_is_left_alone(text: str) -> None:
    assert normalize_text(text, is_result=True) == text


@pytest.mark.parametrize("text", ["wait 5 seconds", "at 14:25:18", "kill process 4711 now"])
def test_a_prompt_is_compared_more_strictly_than_a_result(text: str) -> None:
    assert normalize_text(text, is_result=False) == text
    assert normalize_text(text, is_result=True) != text


_WORDS = st.sampled_from(
    [rule.example for rule in RULES] + [" ", "\n", "<", ">", "-", ":", "12", "ab", '"', "\\n", "{{cwd}}"]
)


@given(st.lists(_WORDS, max_size=8), st.booleans())
def test_what_was_replaced_stays_as_it_is(words: list[str], is_result: bool) -> None:
    once = normalize_text("".join(words), is_result=is_result)
    assert normalize_text(once, is_result=is_result) == once


@given(st.text(max_size=200), st.booleans())
def test_any_text_can_be_replaced_twice(text: str, is_result: bool) -> None:
    once = normalize_text(text, is_result=is_result)
    assert normalize_text(once, is_result=is_result) == once


def test_the_reference_lists_every_rule() -> None:
    page = (DOCS / "reference" / "cassettes.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (.+) \| (.+) \| (.+) \| (.+) \|$", page, re.MULTILINE)
    assert [row for row in listed if row in rules.table_rows()] == rules.table_rows()


MESSAGES: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "old"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1"}, {"type": "tool_use", "id": "t2"}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t2", "content": "two"},
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "one"}]},
                {"type": "text", "text": "and this"},
            ],
        },
        {"role": "system", "content": "environment"},
    ]
}
RESPONSES: dict[str, Any] = {
    "input": [
        {"role": "developer", "content": "be kind"},
        {"role": "user", "content": "old"},
        {"type": "reasoning"},
        {"type": "function_call", "call_id": "t1"},
        {"type": "custom_tool_call", "call_id": "t2"},
        {"type": "custom_tool_call_output", "call_id": "t2", "output": "two"},
        {"type": "function_call_output", "call_id": "t1", "output": [{"type": "input_text", "text": "one"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "and this"}]},
    ]
}
CHAT: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "old"},
        {"role": "assistant", "tool_calls": [{"id": "t1"}, {"id": "t2"}]},
        {"role": "tool", "tool_call_id": "t2", "content": "two"},
        {"role": "tool", "tool_call_id": "t1", "content": "one"},
        {"role": "user", "content": "and this"},
    ]
}
GEMINI: dict[str, Any] = {
    "contents": [
        {"role": "user", "parts": [{"text": "old"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "t1"}}, {"functionCall": {"id": "t2"}}]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "t2", "response": {"output": "two"}}},
                {"functionResponse": {"id": "t1", "response": {"output": "one"}}},
                {"text": "and this"},
            ],
        },
    ]
}


def user_message(words: str) -> Any:
    return {"role": "user", "content": [{"type": "text", "text": words}]}


@pytest.mark.parametrize("body", [MESSAGES, RESPONSES, CHAT], ids=["messages", "responses", "chat"])
def test_results_are_compared_in_the_order_of_their_calls(body: Any) -> None:
    asked = normalize_body(body)
    assert asked.asks == (
        Part(kind="result", text="one"),
        Part(kind="result", text="two"),
        Part(kind="text", text="and this"),
    )
    assert asked.answers_to == ("t1", "t2")


@pytest.mark.parametrize("body", [GEMINI, {"request": GEMINI}], ids=["generate", "gemini-with-a-login"])
def test_results_that_are_objects_are_compared_as_json(body: Any) -> None:
    assert [part.text for part in normalize_body(body).asks] == ['{"output":"one"}', '{"output":"two"}', "and this"]


@pytest.mark.parametrize(
    "body",
    [
        {"input": "do it"},
        {"input": [user_message("<environment_context>x</environment_context>"), user_message("do it")]},
        {"messages": [user_message("<system-reminder>x</system-reminder>"), user_message("do it")]},
        {"messages": [user_message("do it"), user_message("<system-reminder>x</system-reminder>")]},
        {"messages": [user_message("preamble"), {"role": "user", "content": "do it"}]},
        {"messages": [{"role": "assistant", "content": "x"}, user_message("do it")]},
        {"contents": {"role": "user", "parts": [{"text": "do it"}]}},
    ],
)
def test_without_results_the_last_message_that_says_something_is_compared(body: Any) -> None:
    assert normalize_body(body).asks == (Part(kind="text", text="do it"),)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'{"messages": 5}', b'{"messages": [1, null]}', b'{"input": "\xff"}']
)
def test_a_body_that_is_no_conversation_is_no_reason_to_break(body: bytes) -> None:
    assert parse_last_turn(body).results == ()


def test_prompts_that_differ_in_a_number_are_different() -> None:
    assert normalize_body({"input": "wait 5 seconds"}).asks != normalize_body({"input": "wait 6 seconds"}).asks


def test_all_messages_beside_results_are_compared() -> None:
    result = {"role": "tool", "tool_call_id": "t1", "content": "one"}
    body = {"messages": [{"role": "assistant", "content": "x"}, result, user_message("first"), user_message("second")]}
    assert [part.text for part in normalize_body(body).asks] == ["one", "first", "second"]


def test_an_image_is_known_by_its_fingerprint() -> None:
    def image(data: str) -> Any:
        source = {"type": "base64", "media_type": "image/png", "data": data}
        return {"messages": [{"role": "user", "content": [{"type": "image", "source": source, "cache_control": {}}]}]}

    one, again, other = (normalize_body(image(data * 1000)).asks for data in ("a", "a", "b"))
    assert one == again
    assert one != other
    assert len(one[0].text) < 100


def test_a_long_text_is_kept_short_and_still_compared_as_a_whole() -> None:
    def long(middle: str) -> Any:
        return {"input": "start " + "x " * 50_000 + middle + "y " * 50_000 + " end"}

    one, again, other = (normalize_body(long(middle)).asks for middle in ("same", "same", "other"))
    assert one == again
    assert one != other
    assert len(one[0].text) <= MAX_TEXT_LENGTH
    matching = RequestNormalizer(redact=str, placeholders=PathPlaceholders({}))
    assert matching.normalize_recorded(RecordedRequest(call=1, wire="chat", purpose="call", asks=one)) == one


def test_folders_and_secrets_of_two_runs_are_alike() -> None:
    here = normalize_body(
        {"input": "look at /srv/here/work/a.py with s3cret-one-1"}, places=HERE, secret="s3cret-one-1"
    )
    there = normalize_body(
        {"input": "look at /mnt/elsewhere/a.py with s3cret-two-2"}, places=THERE, secret="s3cret-two-2"
    )
    assert here.asks == there.asks == (Part(kind="text", text="look at {{cwd}}/a.py with [REDACTED:KEY]"),)


def test_two_names_for_one_folder_are_alike_where_they_are_the_same() -> None:
    recorded = normalize_body({"input": "/tmp/x and /home/someone"}, places={"home": "/home/someone", "tmp": "/tmp/x"})
    same = {"home": "/here", "tmp": "/here"}
    matching = RequestNormalizer(redact=str, placeholders=PathPlaceholders(same))
    assert matching.normalize_recorded(recorded) == normalize_body({"input": "/here and /here"}, places=same).asks


def key(model: str = "m", *parts: Part) -> Any:
    return match_key(RecordedRequest(call=1, wire="chat", purpose="call", model=model), parts)


def text(words: str) -> Part:
    return Part(kind="text", text=words)


@pytest.mark.parametrize(
    ("recorded", "came", "sentence"),
    [
        (key(), key(), ""),
        (key("a"), key("b"), "model was 'a' and is now 'b'"),
        (key("m", text("red")), key("m", text("rod")), "part 1, the text, was 'red' and is now 'rod'"),
        (
            key("m", text("x" * 100 + "red" + "y" * 100)),
            key("m", text("x" * 100 + "green" + "y" * 100)),
            f"part 1, the text, was '…{'x' * 30}red{'y' * 57}…' and is now '…{'x' * 30}green{'y' * 55}…'",
        ),
        (key("m", text("a")), key("m", text("a"), text("b")), "part 2, the text, is new: 'b'"),
        (key("m", text("a"), text("b")), key("m", text("a")), "part 2, the text, is missing now: 'b'"),
        (
            key("m", text("a")),
            key("m", Part(kind="result", text="b")),
            "part 1 was the text and is now the result of a tool: 'b'",
        ),
        (key("m", text("a")), key("m", text("ab")), "part 1, the text, was 'a' and is now 'ab'"),
    ],
)
def test_the_first_difference_is_named(recorded: Any, came: Any, sentence: str) -> None:
    assert describe_difference(recorded, came) == sentence


def normalize_body(body: Any, *, places: dict[str, str] | None = None, secret: str = "") -> RecordedRequest:
    plain = json.dumps(body).encode()
    ask = Ask(model="m", stream=True, tools=(), newest_text="")
    request = Request(
        method="POST", path="/", headers={}, body=plain, plain=plain, wire="chat", purpose="call", ask=ask
    )
    redact = SecretSet({"KEY": secret}).redact_text
    return RequestNormalizer(redact=redact, placeholders=PathPlaceholders(places or {})).normalize_request(
        request, number=1
    )[0]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "piece",
    [
        "\\",
        "<",
        "<system-reminder>",
        "</usage>agentId: ",
        "0a",
        "1 ",
        "1m",
        "Mon ",
        "12:34:",
        "# AGENTS.md instructions ",
        " ",
        "/tmp",
    ],
)
def test_no_text_takes_long(piece: str) -> None:
    """A pattern that goes back and forth would need minutes for this."""
    text = piece * (300_000 // len(piece)) + "</system-reminder>"
    normalize_text(text, is_result=True)
    PathPlaceholders(HERE).to_placeholders(text)
