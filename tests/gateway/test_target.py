"""Targets: one meaning for everybody, or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.gateway.target import BadTarget, parse_target


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("/", "/"),
        ("/v1/messages", "/v1/messages"),
        ("/v1/messages?beta=true", "/v1/messages?beta=true"),
        ("/v1/messages?", "/v1/messages"),
        ("/v1/messages?&&a&b=", "/v1/messages?a&b="),
        ("/%76%31/messages?b%65ta=%74rue", "/v1/messages?beta=true"),
        ("/v1beta/models/m:generateContent?alt=sse", "/v1beta/models/m:generateContent?alt=sse"),
        ("/v1/x?a=%23%26%3d%20%ff+b/c?d", "/v1/x?a=%23%26%3D%20%FF+b/c?d"),
        ("/v1/x?$alt=json%3benum-encoding=int", "/v1/x?$alt=json;enum-encoding%3Dint"),
    ],
)
def test_a_target_is_written_from_what_was_read(text: str, written: str) -> None:
    assert str(parse_target(text)) == written
    assert str(parse_target(written)) == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "v1/messages",
        "@evil.example/v1/messages",
        ":80/v1/messages",
        "http://evil.example/v1/messages",
        "//evil.example/v1/messages",
        "/v1//messages",
        "/v1/messages/",
        "/v1/messages#",
        "/v1/files#/models",
        "/v1/messages?a=1#b",
        "/v1/./messages",
        "/v1/../messages",
        "/v1/%2e/messages",
        "/v1/%2E%2e/messages",
        "/v1/.%2e/messages",
        "/v1%2fmessages",
        "/v1%5cmessages",
        "/v1\\messages",
        "/v1/messages%23x",
        "/v1/messages%3fx",
        "/v1/messages%00",
        "/v1/messages%0a",
        "/v1/messages%25",
        "/v1/messages%",
        "/v1/messages%zz",
        "/v1/messages;x",
        "/v1/messages%3bx",
        "/v1/messages%20",
        "/v1/mess\xe4ges",
        "/v1/mess%c3%a4ges",
        "/v1/m?a=%",
        "/v1/m?a=\\",
        "/v1/m?$httpMethod=DELETE",
        "/v1/m?%24httpMethod=DELETE",
        "/v1/m?=x",
    ],
)
def test_what_could_mean_something_else_to_another_is_refused(text: str) -> None:
    with pytest.raises(BadTarget):
        parse_target(text)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30))
def test_what_is_read_is_written_so_that_it_is_read_the_same(text: str) -> None:
    try:
        target = parse_target(f"/{text}")
    except BadTarget:
        return
    assert parse_target(str(target)) == target
    assert "#" not in str(target)
    assert "//" not in target.path
