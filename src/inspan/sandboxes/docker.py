"""The docker container: as podman's, but started by a daemon, which alone decides when it ends."""

from .podman.container import Engine, build_sandbox

SANDBOX = build_sandbox(Engine(program="docker", daemon=True))
