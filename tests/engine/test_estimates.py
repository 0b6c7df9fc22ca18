"""What a request may take is guessed from its size, and better once this run's calls have told."""

import base64
import json
import os

import pytest

from inspan.contracts.budgeted import LARGEST_ANSWER
from inspan.engine.money.estimates import Estimator
from inspan.gateway.upstream import Request
from inspan.protocol.usage import Usage

from .spenders import request

_BEGINNINGS = {
    "png": b"\x89PNG\r\n\x1a\n",
    "jpeg": b"\xff\xd8\xff\xe0",
    "gif": b"GIF89a",
    "webp": b"RIFF\x00\x00\x00\x00WEBP",
}


def _picture(kind: str, size: int = 300_000) -> str:
    return base64.b64encode(_BEGINNINGS[kind] + os.urandom(size)).decode()


def _asking(*content: object) -> Request:
    return request(plain=json.dumps({"messages": [{"role": "user", "content": list(content)}]}).encode())


def test_text_is_guessed_at_three_bytes_for_a_token() -> None:
    assert Estimator().of(request(3000)).input == 1001


@pytest.mark.parametrize("kind", _BEGINNINGS)
def test_a_picture_costs_what_pictures_cost_and_not_what_its_bytes_would(kind: str) -> None:
    picture = _picture(kind)
    shapes: list[dict[str, object]] = [
        {"type": "image", "source": {"type": "base64", "media_type": f"image/{kind}", "data": picture}},
        {"type": "input_image", "image_url": f"data:image/{kind};base64,{picture}"},
        {"inlineData": {"mimeType": f"image/{kind}", "data": picture}},
    ]
    for shape in shapes:
        estimate = Estimator().of(_asking(shape, {"type": "text", "text": "what is this?"}))
        assert (estimate.pictures, 1600 <= estimate.input < 1700) == (1, True)


def test_pictures_are_counted_one_by_one() -> None:
    pictures = [{"data": _picture(kind, 5000)} for kind in ("png", "jpeg", "png")]
    assert Estimator().of(_asking(*pictures)).pictures == 3


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(os.urandom(30_000)).decode(),
        os.urandom(30_000).hex(),
        f'<img src="data:image/png;base64,{_picture("png", 30_000)}">',
        "see " + _picture("jpeg", 30_000),
        "iVBORw0KGgo is how they begin",
    ],
    ids=["base64", "hex", "html", "in a sentence", "short"],
)
def test_what_only_looks_like_a_picture_counts_as_text(text: str) -> None:
    asked = _asking({"type": "text", "text": text})
    assert Estimator().of(asked).input == len(asked.plain) // 3 + 1


@pytest.mark.parametrize(
    ("asked", "configured", "output"),
    [
        (None, None, LARGEST_ANSWER),
        (None, 4000, 4000),
        (500, None, 500),
        (500, 4000, 500),
        (64_000, None, 64_000),
        (64_000, 4000, 4000),
    ],
)
def test_an_answer_is_as_large_as_the_request_or_the_user_allows(
    asked: int | None, configured: int | None, output: int
) -> None:
    assert Estimator(largest_answer=configured).of(request(max_output=asked)).output == output


def test_what_calls_took_is_learnt_with_a_margin_and_the_largest_of_the_last_counts() -> None:
    estimator = Estimator()
    for tokens in (2000, 1000):
        estimator.learn(estimator.of(request(10_000)), Usage(cache_read=tokens - 10, input=10, output=99))
    assert estimator.of(request(20_000)).input == int(20_000 * 0.2 * 1.15) + 1
    for _ in range(8):
        estimator.learn(estimator.of(request(10_000)), Usage(input=1000))
    assert estimator.of(request(20_000)).input == int(20_000 * 0.1 * 1.15) + 1


def test_what_a_provider_adds_to_a_small_request_says_nothing_of_larger_ones() -> None:
    estimator = Estimator()
    estimator.learn(estimator.of(request(100)), Usage(input=4000))
    assert estimator.of(request(3000)).input == 1001


def test_pictures_do_not_spoil_what_is_learnt_of_text() -> None:
    estimator = Estimator()
    asked = _asking({"data": _picture("png")}, {"text": "y" * 9000})
    learnt = estimator.of(asked)
    estimator.learn(learnt, Usage(input=1600 + 1800))
    assert estimator.of(request(10_000)).input == int(10_000 * 1800 / learnt.text_bytes * 1.15) + 1
