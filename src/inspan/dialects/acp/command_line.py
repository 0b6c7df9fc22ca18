"""The command line of an agent's usual channel, made into the one of this channel."""

from collections.abc import Collection, Iterator, Sequence


def remove_options(argv: Sequence[str], options: Collection[str], *, flags: Collection[str] = ()) -> tuple[str, ...]:
    """The words without these options, each with its value (behind it, or behind a `=`), and without these flags."""
    return tuple(_iter_kept(argv, frozenset(options), frozenset(flags)))


def option_value(argv: Sequence[str], option: str) -> str:
    """The value of an option; empty where it is not given."""
    return next((argv[place + 1] for place, word in enumerate(argv[:-1]) if word == option), "")


def _iter_kept(argv: Sequence[str], options: frozenset[str], flags: frozenset[str]) -> Iterator[str]:
    words = iter(argv)
    for word in words:
        name, equals, _ = word.partition("=")
        if name in options:
            if not equals:
                next(words, None)
        elif word not in flags:
            yield word
