"""`python -m tests.framing.fuzz_http [SEED] [MESSAGES]`: damaged HTTP messages, read by us and by h11, and counted.

More violent than the tests are, and as long as you like. Anything that both read, and not alike, is printed.
"""

import random
import sys

from .test_http import ANSWER, CHUNKED, HEAD, NASTY_ANSWERS, NASTY_REQUESTS, cut, read_answer, read_by_h11, read_request

_REQUESTS = [
    HEAD + b"content-length: 5\r\n\r\nhello",
    CHUNKED + b"5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\nt: 1\r\n\r\n",
    b"GET /v1/models?x=1 HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    HEAD + b"Expect: 100-continue\r\nUpgrade: websocket\r\nConnection: upgrade\r\ncontent-length: 2\r\n\r\nhi",
    *NASTY_REQUESTS,
]
_ANSWERS = [
    ANSWER + b"content-length: 5\r\n\r\nhello",
    ANSWER + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nabc\r\n0\r\nt: 1\r\n\r\n",
    ANSWER + b"\r\nuntil the end",
    b"HTTP/1.0 200\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\nx",
    b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    *NASTY_ANSWERS,
]
_BITS = [
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b",",
        b";",
        b"0",
        b"5",
        b"f",
        b"-",
        b"+",
        b"=",
        b"#",
        b"//",
        b'"',
        b"\\",
    ),
    *(b"\x00", b"\xa0", b"\x0b", b"\x0c", b"\x85", b"\xff", b"\r\n\r\n", b"0\r\n\r\n", b"x:y\r\n", b"chunked"),
    *(b"HTTP/1.1", b"HTTP/1.0", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n"),
    *(b"Host: b\r\n", b"Connection: close\r\n", b"Upgrade: h2c\r\n"),
]
_SIZES = (1, 2, 3, 7, 50, 5000)


def main(seed: int = 1, messages: int = 20_000) -> int:
    chance = random.Random(seed)
    same = refused = differs = 0
    for number in range(messages):
        server = number % 2 == 0
        data = _damage(chance, chance.choice(_REQUESTS if server else _ANSWERS))
        pieces = cut(data, chance.choice(_SIZES))
        ours = read_request(pieces) if server else read_answer(pieces)
        if ours is None:
            refused += 1
        elif ours == read_by_h11(data.lstrip(b"\r\n") if server else data, server=server):
            same += 1
        else:
            differs += 1
            print(f"{data!r}\n  ours: {ours}\n  h11:  {read_by_h11(data, server=server)}")
    print(f"{messages} messages: {same} read alike, {refused} refused by us, {differs} read differently")
    return 1 if differs else 0


def _damage(chance: random.Random, message: bytes) -> bytes:
    data = bytearray(message)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5))):
        at = chance.randrange(len(data) + 1)
        taken = chance.choice((0, 0, 1, 2, 4))
        if chance.random() < 0.2:
            other = chance.choice(_REQUESTS + _ANSWERS)
            begin = chance.randrange(len(other))
            put = other[begin : begin + chance.randint(1, 30)]
        else:
            put = chance.choice((b"", bytes([chance.randrange(256)]), *[chance.choice(_BITS)] * 3))
        data[at : at + taken] = put
    return bytes(data)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
