"""What a session lets choose, in the two ways that agents mix: modes and models, and options of any kind."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from inspan.protocol.outcome import FailureKind

MODE, MODEL, OPTION = 7, 8, 20


class SetupProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why there will be no turn."""

    failure: FailureKind
    message: str


class NotOffered(Exception):
    """Something was asked for that the session does not offer."""

    def __init__(self, failure: FailureKind, words: str, offered: list[str]) -> None:
        known = f"; it offers {', '.join(offered[:12])}" if offered else ""
        self.problem = SetupProblem(failure=failure, message=f"{words}{known}")


class Settings:
    """What a session offers to choose from, as its answer tells it: in two ways, old and new, that agents mix."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        modes, models = as_object(result.get("modes")), as_object(result.get("models"))
        self._options = as_objects(result.get("configOptions"))
        self.mode = str(modes.get("currentModeId") or "")
        self.modes = [str(mode.get("id")) for mode in as_objects(modes.get("availableModes"))]
        self._models = [str(model.get("modelId")) for model in as_objects(models.get("availableModels"))]
        option = self._find_option("model")
        self.model = str(models.get("currentModelId") or option.get("currentValue") or "")

    def iter_mode_requests(self, wanted: Sequence[str]) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """The request that brings the session into the first of these modes, if it is not; raises `NotOffered`."""
        option = self._find_option("mode")
        offered = self.modes or _option_values(option)
        mode = next((mode for mode in wanted if mode in offered), None)
        if mode is None:
            raise NotOffered("environment", f"it has no mode {' or '.join(wanted)}", offered)
        if self.modes and mode != self.mode:
            yield MODE, "session/set_mode", {"modeId": mode}
        elif not self.modes and mode != option.get("currentValue"):
            yield MODE, "session/set_config_option", {"configId": option.get("id"), "value": mode}

    def model_request(self, model: str) -> tuple[int, str, dict[str, Any]]:
        """The request that chooses a model: its id, method and parameters; raises `NotOffered`."""
        if model in self._models:
            return MODEL, "session/set_model", {"modelId": model}
        option = self._find_option("model")
        if model in _option_values(option):
            return MODEL, "session/set_config_option", {"configId": option.get("id"), "value": model}
        raise NotOffered("model_not_found", f"it has no model {model}", self._models or _option_values(option))

    def option_params(self, name: str, value: str) -> dict[str, Any]:
        """The parameters that set an option, named by its id or category; raises `NotOffered`."""
        option = self._find_option(name)
        if value not in _option_values(option):
            raise NotOffered("environment", f"it has no {name} {value}", _option_values(option))
        return {"configId": option.get("id"), "value": value}

    def _find_option(self, name: str) -> Mapping[str, Any]:
        return next((each for each in self._options if name in (each.get("id"), each.get("category"))), as_object(None))


def _option_values(option: Mapping[str, Any]) -> list[str]:
    """The values of an option; they may stand in groups."""
    found: list[str] = []
    for each in as_objects(option.get("options")):
        inner = as_objects(each.get("options"))
        found += [str(one.get("value")) for one in inner] if inner else [str(each.get("value"))]
    return found


def as_object(value: object) -> dict[str, Any]:
    """The value where it is an object, else an empty one."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def as_objects(value: object) -> list[dict[str, Any]]:
    """The objects of a list; none where it is no list."""
    return [as_object(each) for each in cast(list[object], value)] if isinstance(value, list) else []
