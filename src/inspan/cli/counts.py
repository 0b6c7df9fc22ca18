"""A flag that is a count, or off."""

import click


class Count(click.ParamType[int | None]):
    """A whole number, or `None` for off."""

    name = "count"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value is None or isinstance(value, int):
            return value
        if value == "off":
            return None
        try:
            return int(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a count: use a whole number, or off.", param, ctx)
