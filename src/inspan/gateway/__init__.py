"""The loopback endpoint between an agent and its model; start reading at `gateway.py`, then `script.py`."""

from inspan.gateway.call import ModelCall
from inspan.gateway.gateway import Gateway
from inspan.gateway.scenario import Scenario
from inspan.gateway.scenario_file import load_scenario, parse_scenario
from inspan.gateway.script import ScriptUpstream
from inspan.gateway.upstream import Ask, Reply, Request, Upstream

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
