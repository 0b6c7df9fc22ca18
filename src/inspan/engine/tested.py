"""Whether a program is one of those that the matrix was run on, and takes the options that its driver uses."""

import re
from collections.abc import Mapping

from inspan.contracts.driver import Driver
from inspan.errors import AgentUntested

from .program import Program, ask, dotted, version_of
from .remembered import remembered

Range = tuple[tuple[int, ...], tuple[int, ...]]


def tested(driver: Driver) -> Range | None:
    """The oldest and the newest version that the matrix was run on; nothing for what has no versions."""
    if not driver.install.version:
        return None
    newest = version_of(driver.install.version)
    return driver.tested or newest, newest


def doubt(driver: Driver, program: Program) -> str:
    """A sentence about a version that was never tried; empty for one that was."""
    known = tested(driver)
    version = version_of(program.version)
    if driver.pinned or known is None or known[0] <= version <= known[1]:
        return ""
    oldest, newest = map(dotted, known)
    tried = f"on {newest}" if oldest == newest else f"from {oldest} to {newest}"
    return f"{driver.title} {program.version} was never tried: the matrix was run {tried}."


def refuse_untested(driver: Driver, program: Program) -> None:
    """Raises `AgentUntested` for a version that was never tried."""
    if sentence := doubt(driver, program):
        tried = f"{driver.name}@{driver.install.version}"
        step = f"Leave --strict out, or use one that was tried: `inspan agents install {tried}`, then `-a {tried}`."
        raise AgentUntested(sentence, next_step=step)


def unknown_options(driver: Driver, program: Program, env: Mapping[str, str]) -> list[str]:
    """The options that its driver uses and this program's own help does not name; asked once for each program."""
    if not driver.accepts:
        return []
    words = " ".join(driver.help_words)
    said = remembered(
        program.path,
        lambda: ask(driver, program.path, env, words=driver.help_words),
        about=words,
        # A machine that was too busy for an answer, or an error in its place, is no reason to doubt it for ever.
        worth=lambda said: any(_named(option, said) for option in driver.accepts),
    )
    return [option for option in driver.accepts if not _named(option, said)]


def _named(option: str, said: str) -> bool:
    return bool(re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", said))
