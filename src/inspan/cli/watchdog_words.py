"""The flag that says how long a run may be silent."""

from typing import Any, cast

import click

from inspan.config.durations import parse_duration

_LIMITS = {"model": "model_s", "tool": "tool_s", "step": "step_s"}
_WORDS: dict[str, dict[str, Any]] = {
    "on": {},
    "off": {"model_s": None, "tool_s": None},
    "triage": {"triage": True},
}


class WatchdogWords(click.ParamType[dict[str, Any]]):
    """What was said, by the fields of `WatchdogLimits`; nothing of it is on as the settings have it."""

    name = "limits"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        if isinstance(value, dict):
            return cast(dict[str, Any], value)
        said: dict[str, Any] = {}
        for word in str(value).split(","):
            said |= self._read(word.strip(), param, ctx)
        return said

    def _read(self, word: str, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        if word in _WORDS:
            return _WORDS[word]
        name, _, length = word.partition("=")
        if name not in _LIMITS:
            self.fail(f"{word!r} is none of on, off, triage, model=…, tool=… and step=….", param, ctx)
        try:
            seconds = parse_duration(length)
        except ValueError as error:
            self.fail(f"{word!r}: {error}", param, ctx)
        if seconds is None and name == "step":
            self.fail("step cannot be off: a step needs some time to help.", param, ctx)
        if seconds is not None and seconds <= 0:
            self.fail(f"{word!r} is no time at all.", param, ctx)
        return {_LIMITS[name]: seconds}
