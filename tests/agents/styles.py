"""The ways in which the real agents take their tools, and how each wire tells its tokens."""

from dataclasses import dataclass

import pytest

from inspan.protocol.usage import Usage

PER_CALL = Usage(input=100, output=7, cache_read=20, cache_write=10, reasoning=3)
NONE_USED = Usage()


@dataclass(frozen=True, kw_only=True)
class Style:
    """An agent and the arguments that choose its tools; `told_early` is what a broken-off stream has told of tokens."""

    name: str
    agent: str
    arguments: tuple[str, ...] = ()
    told_early: Usage = NONE_USED

    def __str__(self) -> str:
        return self.name


CLAUDE = Style(name="claude", agent="claude", told_early=Usage(input=100, output=1, cache_read=20, cache_write=10))
# Its default model writes JavaScript that calls tools; the older one calls them one by one.
CODE_MODE = Style(name="codex", agent="codex")
CLASSIC = Style(name="codex-classic", agent="codex", arguments=("-m", "gpt-5.5"))
# The same programs by their vendors' SDKs.
CLAUDE_SDK = Style(name="claude-sdk", agent="claude", arguments=("--channel", "sdk"), told_early=CLAUDE.told_early)
CODEX_SDK = Style(name="codex-sdk", agent="codex", arguments=("--channel", "sdk"))

each_agent = pytest.mark.parametrize("style", [CLAUDE, CODE_MODE], ids=str)
each_style = pytest.mark.parametrize("style", [CLAUDE, CODE_MODE, CLASSIC], ids=str)
each_sdk = pytest.mark.parametrize("style", [CLAUDE_SDK, CODEX_SDK], ids=str)
