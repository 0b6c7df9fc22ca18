"""The command line: a thin face. Data goes to stdout, progress to stderr; one file per command in `commands/`."""


def main() -> None:
    """The command `inspan`. A Ctrl-C while it is being loaded ends it in silence: there is nothing to undo yet."""
    # Deferred, all of it: an interrupt in the middle of an import would show a traceback.
    import signal

    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .main import main as start  # Only now: signals are set up before the rest is loaded.

    signal.signal(signal.SIGINT, usual)
    start()
