"""The loopback endpoint between an agent and its model; start reading at `gateway.py`, then `scripts/script.py`.

Names load when they are first used: a command that only looks at an address does without the server.
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from inspan.gateway.gateway import Gateway as Gateway
    from inspan.gateway.scripts.scenario import Scenario as Scenario
    from inspan.gateway.scripts.scenario_file import load_scenario as load_scenario
    from inspan.gateway.scripts.scenario_file import parse_scenario as parse_scenario
    from inspan.gateway.scripts.script import ScriptUpstream as ScriptUpstream
    from inspan.gateway.upstream import Ask as Ask
    from inspan.gateway.upstream import Reply as Reply
    from inspan.gateway.upstream import Request as Request
    from inspan.gateway.upstream import Upstream as Upstream

    from .model_call import ModelCall as ModelCall

_HOME = {
    "Ask": "inspan.gateway.upstream",
    "Gateway": "inspan.gateway.gateway",
    "ModelCall": "inspan.gateway.model_call",
    "Reply": "inspan.gateway.upstream",
    "Request": "inspan.gateway.upstream",
    "Scenario": "inspan.gateway.scripts.scenario",
    "ScriptUpstream": "inspan.gateway.scripts.script",
    "Upstream": "inspan.gateway.upstream",
    "load_scenario": "inspan.gateway.scripts.scenario_file",
    "parse_scenario": "inspan.gateway.scripts.scenario_file",
}

__all__ = [
    "Ask",
    "Gateway",
    "ModelCall",
    "Reply",
    "Request",
    "Scenario",
    "ScriptUpstream",
    "Upstream",
    "load_scenario",
    "parse_scenario",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'inspan.gateway' has no attribute {name!r}")
    from importlib import import_module  # Start-up time: as in the package above.

    return getattr(import_module(_HOME[name]), name)
