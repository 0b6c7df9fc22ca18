"""Reads a saved session back: its messages are those of the stream, whole, each with the tokens of its call."""

from collections.abc import Iterator, Sequence

import msgspec

from inspan.protocol.events import Event, TurnCompleted, TurnStarted
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals, Usage

from .dialect import GooseDialect
from .frames import Message, SavedSession, session_usage, to_usage

_decode = msgspec.json.Decoder(know_type(SavedSession)).decode


def read(saved: bytes) -> Sequence[Event]:
    """The events of every turn that was answered; what subagents used is counted with the last."""
    session = _decode(saved)
    dialect = GooseDialect(Task(prompt="", cwd=session.working_dir), SessionTotals())
    turns = [_read_turn(messages, dialect) for messages in _split_turns(session.conversation or [])]
    told = sum((usage for _, usage in turns), Usage())
    rest = session_usage(session.accumulated_usage) - told if session.accumulated_usage else Usage()
    last = len(turns) - 1
    return [
        event
        for number, (events, usage) in enumerate(turns)
        for event in (
            TurnStarted(),
            *events,
            TurnCompleted(usage=usage + rest if number == last else usage),
        )
    ]


def _split_turns(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """The answers to each prompt; a prompt without any is one that failed."""
    answers: list[Message] = []
    for message in messages:
        if message.role == "user" and any(part.type == "text" for part in message.content):
            if answers:
                yield answers
            answers = []
        else:
            answers.append(message)
    if answers:
        yield answers


def _read_turn(messages: Sequence[Message], dialect: GooseDialect) -> tuple[list[Event], Usage]:
    events = [event for message in messages for event in dialect.read_message(message)]
    spent = [message.metadata.usage for message in messages if message.metadata.usage]
    usage = sum(
        (
            to_usage(
                input=each.input_tokens,
                output=each.output_tokens,
                cache_read=each.cache_read_tokens,
                cache_write=each.cache_write_tokens,
            )
            for each in spent
        ),
        Usage(),
    )
    return [*events, *dialect.flush()], usage
