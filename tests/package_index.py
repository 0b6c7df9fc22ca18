"""How this machine reaches its package index, for the few tests that fetch a wheel."""

import os
from pathlib import Path


def index_environment() -> dict[str, str]:
    """The variables that lead to it, with a cache that is warm."""
    names = [name for name in os.environ if name.startswith(("UV_", "PIP_")) or name.lower().endswith("_proxy")]
    cache = {"UV_CACHE_DIR": os.path.join(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "uv")}
    return {**cache, **{name: os.environ[name] for name in names}}
