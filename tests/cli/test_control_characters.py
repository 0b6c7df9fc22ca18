"""What an agent prints is shown to the reader and never obeyed by the terminal."""

import io

from inspan.cli.console import Console
from inspan.protocol.events import TextDelta, TextSaid, ToolCompleted, ToolStarted

SPELL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x00tab\tline\n"


def test_control_characters_of_an_agent_are_made_visible() -> None:
    screen = io.StringIO()
    console = Console(screen)
    for event in (
        TextSaid(text=SPELL),
        TextDelta(block="1", text=SPELL),
        ToolStarted(id="1", name=f"shell{SPELL}", input={"command": SPELL}),
        ToolCompleted(id="1", output=SPELL),
    ):
        console.show(event)
    shown = screen.getvalue()
    assert {character for character in shown if not character.isprintable()} == {"\n", "\t"}
    assert "␛[2J" in shown
