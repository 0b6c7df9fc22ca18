"""The podman container: an image's own system, the working folder, and a network of its own. No daemon is needed."""

from .container import Engine, build_sandbox

SANDBOX = build_sandbox(Engine(program="podman"))
