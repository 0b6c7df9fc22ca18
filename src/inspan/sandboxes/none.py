"""No sandbox: the agent has the user's powers; containment alone holds it."""

from inspan.contracts.sandbox import Box, Sandbox


def _wrap(argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
    return argv


SANDBOX = Sandbox(name="none", boundary=False, wrap=_wrap)
