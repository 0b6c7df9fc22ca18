"""The sources of an answer, in the ways in which providers name them."""

from inspan.protocol.events import Citation

from .json_values import Json, as_objects, as_texts, get_int, get_object, get_text


def find_citations(payload: Json) -> list[Citation]:
    """What an answer cites: results of a search with their numbers, annotations of a text, or bare addresses."""
    if not any(map(payload.get, ("search_results", "citations", "annotations"))):
        return []
    found = [
        _to_citation(each, place=place) for place, each in enumerate(as_objects(payload.get("search_results")), start=1)
    ]
    if not any(each.url for each in found):
        found = [Citation(url=each, number=place) for place, each in enumerate(as_texts(payload.get("citations")), 1)]
    annotated = [
        _to_citation(get_object(each, "url_citation") or each) for each in as_objects(payload.get("annotations"))
    ]
    return dedupe_citations([*found, *annotated])


def dedupe_citations(citations: list[Citation]) -> list[Citation]:
    """Each source once, as it was named first."""
    return list({each.url: each for each in reversed(citations) if each.url}.values())[::-1]


def _to_citation(source: Json, *, place: int = 0) -> Citation:
    return Citation(
        url=get_text(source, "url"),
        title=get_text(source, "title"),
        date=get_text(source, "date"),
        number=get_int(source, "id") or place,
    )
