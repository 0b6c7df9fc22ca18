"""Print what is new, for whoever upgrades."""

import re
import sys
from importlib.resources import files
from pathlib import Path

import click

from inspan import __version__
from inspan.cli.output import print_json, wants_colour
from inspan.errors import BadInput, HarnessFault
from inspan.reporters.prose import fit_words
from inspan.reporters.text import apply_style

_NAME = "CHANGELOG.md"
_SECTION = re.compile(
    r"^## (?P<version>\d+\.\d+\.\d+)(?P<rest>[^\n]*)\n(?P<notes>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"\s*\(\[[^]]+\]\([^)]+\)\)|\[([^]]+)\]\([^)]+\)")


@click.command()
@click.option("--since", metavar="VERSION", help="Also what came in every version after this one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(since: str | None, as_json: bool) -> None:
    """Print what is new in this version, for whoever upgrades.

    `uv tool upgrade inspan`, `pipx upgrade inspan` or `pip install -U inspan` upgrades. Runs that live meanwhile go on
    with the version that started them; their logs are read by both.
    """
    found = [each for each in read_notes() if _is_meant(each[0], since)]
    if as_json:
        notes = [{"version": version, "title": title, "notes": text} for version, title, text in found]
        print_json(version=__version__, since=since, notes=notes)
        return
    colour = wants_colour(sys.stdout)
    for version, title, text in found:
        click.echo(apply_style(f"inspan {version}{title}", "bold", colour=colour), color=colour)
        for line in _list_lines(text):
            is_head = line.startswith("### ")
            words = fit_words(line.removeprefix("### "), sys.stdout)
            click.echo(apply_style(words, "bold", colour=colour) if is_head else words, color=colour)
    if not found:
        click.echo(f"inspan: nothing came after {since}; this is {__version__}", err=True)


def read_notes() -> list[tuple[str, str, str]]:
    """Version, the rest of its title, and what is said of it; the newest first."""
    places = (Path(str(files("inspan"))) / _NAME, Path(__file__).parents[4] / _NAME)
    text = next((path.read_text(encoding="utf-8") for path in places if path.is_file()), "")
    if not text:
        raise HarnessFault(f"{_NAME} is not where it was installed.", next_step="Install inspan again.")
    return [(each["version"], each["rest"], each["notes"].strip("\n")) for each in _SECTION.finditer(text)]


def _is_meant(version: str, since: str | None) -> bool:
    if since is None:
        return version == __version__
    return _parse(since) < _parse(version) <= _parse(__version__)


def _parse(version: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, version.split(".")))
    except ValueError:
        known = ", ".join(each[0] for each in read_notes())
        raise BadInput("--since", version, "it is no version.", next_step=f"There are {known}.") from None


def _list_lines(text: str) -> list[str]:
    """Each item in one line, without links: there are no pages beside an installed program."""
    joined = re.sub(r"\n +", " ", text)
    return [_LINK.sub(lambda found: found[1] or "", line).replace("`", "") for line in joined.splitlines() if line]
