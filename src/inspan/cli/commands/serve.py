"""Serve the page and the HTTP API of this machine's runs."""

import os
import sys
import time

import click

from inspan.cli.output import print_json
from inspan.errors import BadInput, InspanError
from inspan.stores.paths import ROOTS_VARIABLE, state_home

_PORT = 7117


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help=f"The port; by default {_PORT}, or the next one free.")
@click.option("--root", "roots", multiple=True, metavar="DIR", help="Runs start below it alone; the current folder.")
@click.option("--read-only", is_flag=True, help="Only show: nothing can be started, answered or stopped.")
@click.option("--allow-direct", is_flag=True, help="Runs may go to the provider without the gateway, with your key.")
@click.option("--tls-cert", metavar="FILE", help="The certificate, PEM, for HTTPS.")
@click.option("--tls-key", metavar="FILE", help="Its key, PEM.")
@click.option("--insecure", is_flag=True, help="Listen on another address without TLS: the token can be read there.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name that the server is reached by.")
@click.option("--new-token", is_flag=True, help="Replace the token: links and logins of before stop working.")
@click.option("--json", "as_json", is_flag=True, help="Tell where it listens as one JSON object.")
def command(
    host: str,
    port: int | None,
    roots: tuple[str, ...],
    read_only: bool,
    allow_direct: bool,
    tls_cert: str | None,
    tls_key: str | None,
    insecure: bool,
    hosts: tuple[str, ...],
    new_token: bool,
    as_json: bool,
) -> None:
    """Serve the page and the HTTP API of this machine's runs.

    Open the link that it prints: the token in it lets whoever has it start agents here, so keep it to yourself.
    Programs send it as `Authorization: Bearer TOKEN`; the API is described at /api/v1/openapi.json.

    Ctrl-C ends the server. The runs go on, and whoever follows them goes on when a server is started again.
    """
    try:
        # An optional extra, and what it needs takes longer to load than other commands run.
        from inspan.server.serve import bind, serve
        from inspan.server.settings import ServerSettings
        from inspan.server.token_file import TokenFile
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in ("starlette", "uvicorn"):
            raise InspanError(
                "`inspan serve` needs the extra `server`, which is not installed.",
                next_step="Install it: `uv tool install 'inspan[server]'`, or `pip install 'inspan[server]'`.",
            ) from error
        raise
    _check_tls(host, tls_cert, tls_key, insecure=insecure)
    _check_hosts(hosts)
    real = _resolve_roots(roots)
    certificate, key = tls_cert or "", tls_key or ""
    state = state_home()
    tokens = TokenFile(state, renew=new_token)
    listener = bind(host, _PORT if port is None else port, is_fixed=port is not None)
    settings = ServerSettings(
        state=state,
        env=dict(os.environ),
        roots=real,
        host=host,
        port=listener.getsockname()[1],
        read_only=read_only,
        allows_direct=allow_direct,
        tls=bool(certificate),
        hosts=hosts,
        started_at=time.time(),
    )

    def announce() -> None:
        token = tokens.derive("read-only token") if read_only else tokens.token
        link = f"{settings.url}/#token={token}"
        if as_json:
            print_json(
                url=settings.url,
                link=link,
                token=token,
                host=host,
                port=settings.port,
                roots=list(real),
                read_only=read_only,
                pid=os.getpid(),
            )
        else:
            click.echo(link)
            click.echo(f"inspan: runs start below {', '.join(real)}; Ctrl-C ends the server", err=True)
        sys.stdout.flush()  # Whoever started it waits for this line.

    serve(listener, settings, tokens=tokens, on_ready=announce, certificate=certificate, key=key)


def _check_tls(host: str, certificate: str | None, key: str | None, *, insecure: bool) -> None:
    from inspan.server.settings import is_loopback  # Of the optional extra.

    if bool(certificate) != bool(key):
        given = "--tls-cert" if certificate else "--tls-key"
        raise BadInput(given, certificate or key, "it goes with the other.", next_step="Give both.")
    if not (is_loopback(host) or certificate or insecure):
        raise BadInput(
            "--host",
            host,
            "whoever is on the way there could read the token.",
            next_step="Give --tls-cert and --tls-key, or say --insecure where the way is safe.",
        )
    if certificate and key:
        _check_certificate(certificate, key)


def _check_hosts(hosts: tuple[str, ...]) -> None:
    from inspan.server.access import split_host  # Of the optional extra.

    for name in hosts:
        if not name or split_host(name) != name.lower().removesuffix("."):
            problem = "it is not the name of a host."
            raise BadInput("--allow-host", name, problem, next_step="Give one name, without a port and without *.")


def _resolve_roots(roots: tuple[str, ...]) -> tuple[str, ...]:
    """Where the folders really are, each once."""
    from inspan.server.settings import find_folder_problem  # Of the optional extra.

    if "" in roots:
        raise BadInput("--root", "", "it is empty.", next_step="Name a folder, as in `--root .`.")
    real = {os.path.realpath(root): root for root in roots or (os.getcwd(),)}
    for root, given in real.items():
        if problem := find_folder_problem(root):
            raise BadInput("--root", given, problem, next_step="Name a folder.")
        if os.pathsep in root:
            problem = f"{root} has a {os.pathsep} in its name, which separates roots in {ROOTS_VARIABLE}."
            raise BadInput("--root", given, problem, next_step="Name the folder around it, or rename it.")
    return tuple(real)


def _check_certificate(certificate: str, key: str) -> None:
    import ssl  # Start-up time: few servers have one.

    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        problem = getattr(error, "strerror", "") or str(error)
        raise BadInput(
            "--tls-cert", certificate, f"it cannot be used with its key: {problem}.", next_step="Give PEM files."
        ) from error
