"""TLS for upstreams: whom to trust. Imported only for https, because loading `ssl` takes 15 ms and 4 MB."""

import asyncio
import os
import ssl
from collections.abc import Iterable

from inspan.errors import BadInput
from inspan.gateway.http.connection import Connection, ConnectionCut

_SHUTDOWN_TIMEOUT_S = 1.0

# For a Python that was built on another system and looks for them where that one had them.
_KNOWN_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def client_context(ca_files: Iterable[str] = ()) -> ssl.SSLContext:
    """Trusts the system's authorities, or those of SSL_CERT_FILE, and the ones in the files; raises `BadInput`."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    paths = ssl.get_default_verify_paths()
    if not (paths.cafile or paths.capath):
        known = next((bundle for bundle in _KNOWN_BUNDLES if os.path.exists(bundle)), None)
        ca_files = [*ca_files, known] if known else ca_files
    for file in ca_files:
        _trust(context, file)
    return context


async def secure(connection: Connection, context: ssl.SSLContext, *, host: str) -> None:
    """Begins TLS on a connection, with a host that must prove its name; raises `ConnectionCut` or `OSError`."""
    assert connection.transport is not None
    loop = asyncio.get_running_loop()
    try:
        secured = await loop.start_tls(
            connection.transport, connection, context, server_hostname=host, ssl_shutdown_timeout=_SHUTDOWN_TIMEOUT_S
        )
    except ssl.SSLCertVerificationError as error:
        raise ConnectionCut(f"its certificate is not trusted: {error.verify_message}") from error
    except ssl.SSLError as error:
        raise ConnectionCut(f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}") from error
    if secured is None:
        raise ConnectionResetError
    connection.transport = secured


def _trust(context: ssl.SSLContext, file: str) -> None:
    try:
        context.load_verify_locations(file)
    except ssl.SSLError:
        raise BadInput("ca_file", file, "holds no certificates in PEM form.") from None
    except OSError as error:
        raise BadInput("ca_file", file, f"cannot be read: {os.strerror(error.errno or 0)}.") from None
