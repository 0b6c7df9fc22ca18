"""Statuses of errors: every error has one that says whose fault it is."""

from collections.abc import Iterator

from inspan.errors import InspanError
from inspan.server.problems import STATUSES, find_status


def list_errors(kind: type[InspanError] = InspanError) -> Iterator[type[InspanError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from list_errors(each)


def make(kind: type[InspanError]) -> InspanError:
    error = kind.__new__(kind)
    error.args = ()
    return error


def test_an_error_is_the_servers_fault_only_where_it_is() -> None:
    faults = {kind.code for kind in list_errors() if find_status(make(kind)) == 500}
    # What a client raises of its own is never answered by a server.
    own = {"harness_fault", "log_broken", "log_too_new", "output_refused"}
    assert faults == own | {"inspan", "server_unreachable", "answer_lost", "server_refused"}


def test_every_status_belongs_to_an_error_that_there_is() -> None:
    assert set(STATUSES) <= {kind.code for kind in list_errors()}
