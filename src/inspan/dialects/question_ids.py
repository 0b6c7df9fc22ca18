"""The ids of questions, which are an agent's own where everybody can answer by them."""

from collections.abc import Container

_LONGEST = 100
_NAMELESS = "asked"


def name_question(identity: str, taken: Container[str]) -> str:
    """The id of a question that an agent calls `identity`: the same, unless another one is open by it (`taken`), or it
    is nothing that could be typed or stand in an address. Not more than 120 printable characters."""
    shaped = "".join(letter if letter.isprintable() else "_" for letter in identity[:_LONGEST])
    if not shaped.strip(" ."):
        shaped = f"{_NAMELESS}{shaped.strip()}"
    name, number = shaped, 1
    while name in taken:
        number += 1
        name = f"{shaped}#{number}"
    return name
