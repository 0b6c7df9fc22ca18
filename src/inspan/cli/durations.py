"""A flag that is a duration."""

import click

from inspan.config.durations import parse_duration


class Duration(click.ParamType[float | None]):
    """Seconds, or `None` for off."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        if value is None or isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
