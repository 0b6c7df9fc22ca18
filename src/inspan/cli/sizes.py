"""Flags that are a size or a number of processors."""

import click

from inspan.config.sizes import parse_size


class Size(click.ParamType[int | None]):
    """Bytes, or `None` for off."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value is None or isinstance(value, int):
            return value
        try:
            return parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Processors(click.ParamType[float | None]):
    """How many, also a part of one; `None` for off."""

    name = "cpus"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        if value is None or isinstance(value, float):
            return value
        if value == "off":
            return None
        try:
            return float(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a number of processors: use 2, 0.5 or off.", param, ctx)
