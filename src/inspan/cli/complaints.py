"""What a command could not do, as a sentence on stderr and an exit code; no traceback reaches the user."""

import os
import sys

from inspan.errors import BadInput, InspanError, OutputRefused


def complain(arguments: "list[str]", error: BaseException, *, code: int = 0) -> int:
    """Tells of an error and gives the exit code; `code` is what the command would have left with."""
    # Start-up time: only a complaint needs it.
    from inspan.protocol.reasons import FAILED, INTERRUPTED, exit_code_of_error

    if isinstance(error, OutputRefused):
        if not error.is_closed:
            print_error(arguments, error.code, error.message, error.next_step)
        elif not error.run_id:
            return code  # Whoever stops reading has seen enough.
        return code or exit_code_of_error(error)  # Of a run that goes on, 0 would say that it has completed.
    if isinstance(error, InspanError):
        print_error(arguments, error.code, _name_flag(arguments, error), error.next_step)
        return exit_code_of_error(error)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if os.environ.get("INSPAN_DEBUG"):
        raise error
    print_error(arguments, "harness_fault", f"inspan broke: {error!r}.", "Set INSPAN_DEBUG=1 to see where.")
    return FAILED


def _name_flag(arguments: "list[str]", error: InspanError) -> str:
    """The error's sentence, with the flag that was typed in the place of the field that it sets."""
    if not isinstance(error, BadInput):
        return error.message
    name = f"--{error.field.removesuffix('_s').removesuffix('_bytes').replace('_', '-')}"
    typed = {word.partition("=")[0] for word in arguments}
    flag = next((each for each in (name, name.removesuffix("s")) if each in typed), "")
    if not flag:
        return error.message
    told = f"{error.field} True" if error.value is True else error.field
    return flag + error.message.removeprefix(told)


def print_error(arguments: "list[str]", code: str, message: str, next_step: str) -> None:
    """A sentence and what to do next, or one JSON object where the command was asked for JSON."""
    from inspan.reporters.prose import fit_words  # Start-up time: only a complaint needs it.
    from inspan.reporters.text import escape_controls

    text = fit_words(escape_controls(f"inspan: {message}" + (f"\n  → {next_step}" if next_step else "")), sys.stderr)
    if "--json" in arguments:
        from inspan.cli.output import format_error_json  # Start-up time: only errors need it.

        text = format_error_json(code, message, next_step)
    try:
        print(text, file=sys.stderr)
    except OutputRefused:
        pass  # Then the exit code alone tells it.
