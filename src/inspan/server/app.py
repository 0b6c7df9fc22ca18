"""The application: the routes of the API, the streams and the page behind one rim."""

import os
from collections.abc import Iterable

from starlette.routing import Route, Router
from starlette.types import ASGIApp

from inspan import __version__
from inspan.client.operations import Operation
from inspan.client.place import Place
from inspan.protocol.wire import SCHEMA, encode
from inspan.stores.paths import ROOTS_VARIABLE

from .access import PREFIX, Access
from .endpoints import FixedEndpoint, build_routes
from .hub import Hub
from .openapi import build_description
from .page import Page, find_page_folder
from .rim import Rim
from .roots import Roots
from .settings import ServerSettings
from .streams import STREAMS, build_stream_routes
from .token_file import TokenFile
from .values import ServerInfo


def build_app(
    settings: ServerSettings, operations: Iterable[Operation], *, tokens: TokenFile, hub: Hub, page: str = ""
) -> ASGIApp:
    """Everything that a server answers; runs can be followed while `hub` is open."""
    operations = tuple(operations)
    # What is started holds to the roots itself: a link may have come since they were looked at here.
    place = Place(state=settings.state, env={**settings.env, ROOTS_VARIABLE: os.pathsep.join(settings.roots)})
    access = Access(settings, tokens)
    info = ServerInfo(
        version=__version__,
        schema=SCHEMA,
        read_only=settings.read_only,
        roots=list(settings.roots),
        pid=os.getpid(),
        started_at=settings.started_at,
    )
    roots = Roots(settings.roots, settings.env, allows_direct=settings.allows_direct)
    description = encode(build_description(operations, STREAMS))
    routes = [
        *build_routes(operations, place, info=info, access=access, roots=roots),
        *build_stream_routes(hub),
        Route(f"{PREFIX}/openapi.json", FixedEndpoint(description), methods=["GET"]),
    ]
    router = Router(routes, redirect_slashes=False, default=Page(page or find_page_folder()))
    return Rim(router, access)
