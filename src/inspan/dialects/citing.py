"""The sources of an answer, in the ways in which providers name them."""

from inspan.protocol.events import Citation

from .values import Json, inner, number, tables, word, words


def citations_in(payload: Json) -> list[Citation]:
    """What an answer cites: results of a search with their numbers, annotations of a text, or bare addresses."""
    if not any(map(payload.get, ("search_results", "citations", "annotations"))):
        return []
    found = [_of(each, place=place) for place, each in enumerate(tables(payload.get("search_results")), start=1)]
    if not any(each.url for each in found):
        found = [Citation(url=each, number=place) for place, each in enumerate(words(payload.get("citations")), 1)]
    annotated = [_of(inner(each, "url_citation") or each) for each in tables(payload.get("annotations"))]
    return without_twins([*found, *annotated])


def without_twins(citations: list[Citation]) -> list[Citation]:
    """Each source once, as it was named first."""
    return list({each.url: each for each in reversed(citations) if each.url}.values())[::-1]


def _of(source: Json, *, place: int = 0) -> Citation:
    return Citation(
        url=word(source, "url"),
        title=word(source, "title"),
        date=word(source, "date"),
        number=number(source, "id") or place,
    )
