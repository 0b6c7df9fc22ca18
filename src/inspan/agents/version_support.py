"""Whether a program is one of those that the matrix was run on, and takes the options that its driver uses."""

import re
from collections.abc import Mapping

from inspan.contracts.driver import Driver
from inspan.errors import AgentUntested

from .probe_cache import memoize_output
from .program import Program, format_version, parse_version, run_program

VersionRange = tuple[tuple[int, ...], tuple[int, ...]]


def get_tested_range(driver: Driver) -> VersionRange | None:
    """The oldest and the newest version that the matrix was run on; nothing for what has no versions."""
    if not driver.program.install.version:
        return None
    newest = parse_version(driver.program.install.version)
    return driver.program.tested or newest, newest


def untested_warning(driver: Driver, program: Program) -> str:
    """A sentence about a version that was not tested, the program's or its package's; empty for one that was."""
    if sentence := _untested_package_warning(driver, program):
        return sentence
    known = get_tested_range(driver)
    version = parse_version(program.version)
    if driver.program.pinned or known is None or known[0] <= version <= known[1]:
        return ""
    oldest, newest = map(format_version, known)
    tried = f"on {newest}" if oldest == newest else f"from {oldest} to {newest}"
    return f"{driver.title} {program.version} was not tested: the matrix was run {tried}."


def _untested_package_warning(driver: Driver, program: Program) -> str:
    package = driver.channels[0].package
    if not package or not program.package or program.package_version == package.version:
        return ""
    had = program.package_version or "of an unknown version"
    return f"{package.name} {had} was not tested: the matrix was run on {package.version}."


def refuse_untested(driver: Driver, program: Program) -> None:
    """Raises `AgentUntested` for a version that was not tested."""
    package = driver.channels[0].package
    if package and (sentence := _untested_package_warning(driver, program)):
        step = f"Leave --strict out, or `pip install 'inspan[{package.extra}]'`."
        raise AgentUntested(sentence, next_step=step)
    if sentence := untested_warning(driver, program):
        tried = f"{driver.name}@{driver.program.install.version}"
        step = f"Leave --strict out, or use one that was tested: `inspan agents install {tried}`, then `-a {tried}`."
        raise AgentUntested(sentence, next_step=step)


def find_unknown_options(driver: Driver, program: Program, env: Mapping[str, str]) -> list[str]:
    """The options that its driver uses and this program's own help does not name; asked once for each program."""
    if not driver.program.required_flags:
        return []
    words = " ".join(driver.program.help_args)
    output = memoize_output(
        program.path,
        lambda: run_program(driver, program.path, env, arguments=driver.program.help_args),
        subject=words,
        # A machine that was too busy for an answer, or an error in its place, is no reason to doubt it for ever.
        is_valid=lambda output: any(_mentions(option, output) for option in driver.program.required_flags),
    )
    return [option for option in driver.program.required_flags if not _mentions(option, output)]


def _mentions(option: str, output: str) -> bool:
    return bool(re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", output))
