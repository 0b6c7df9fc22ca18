"""What a user and a project have set, and where; start reading at `settings.py`, then `layers.py`."""

from .layers import Config, load
from .locations import Layer
from .settings import AgentSettings, Settings

__all__ = ["AgentSettings", "Config", "Layer", "Settings", "load"]
