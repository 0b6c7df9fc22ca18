"""The command line: a thin face. Data goes to stdout, progress to stderr; one file per command in `commands/`."""


def main() -> None:
    """The command `inspan`. A Ctrl-C while it is being loaded ends it in silence: there is nothing to undo yet."""
    # Deferred, all of it: an interrupt in the middle of an import would show a traceback.
    import sys

    if sys.argv[1:2] == ["file-tools"]:
        _start_file_tools()
    import signal  # Behind the other, which does without it.

    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .main import main as start  # Only now: signals are set up before the rest is loaded.

    signal.signal(signal.SIGINT, usual)
    start()


def _start_file_tools() -> None:
    """An agent calls it for each file: it starts without what the other commands load. Comes back where help is asked
    for, which is theirs."""
    try:
        from .file_tools import main as start  # Start-up time, as above.

        start()
    except KeyboardInterrupt:
        import os  # As above.

        os._exit(130)
