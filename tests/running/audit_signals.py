"""A signal at an exact moment of a process's start, without a hook in the product: Python's own audit events name it.

For the command that starts a run this is a `sitecustomize`; its supervisor, which loads none, is started by a wrapper.
"""

import signal
import sys
from pathlib import Path
from typing import NamedTuple

from tests.cli_env import CliEnv


class Moment(NamedTuple):
    """An audit event and the end of its first argument: `open` of what ends so, `import` of a module."""

    event: str
    end: str = ""

    def __str__(self) -> str:
        return f"{self.event} {self.end}".strip()


_HOOK = """
import os, sys
def _watch(event, arguments, done=[]):
    if not done and event == {event!r} and str(arguments[0] if arguments else "").endswith({end!r}):
        done.append(True)
        os.kill(os.getpid(), {number})
sys.addaudithook(_watch)
"""
# A shell without job control makes what it starts in the background ignore an interrupt.
_FOREGROUND = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
_WRAPPER = """#!{python} -IS
import os, sys
boot = next((word for word in sys.argv if word.endswith("boot.py")), "")
if not boot:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
sys.argv = sys.argv[sys.argv.index(boot):]
{hook}
sys.audit("born")
with open(boot) as file:
    code = compile(file.read(), boot, "exec")
exec(code, {{"__name__": "__main__", "__file__": boot}})
"""


def signal_command(cli_env: CliEnv, moment: Moment, number: signal.Signals) -> dict[str, str]:
    """The environment in which the command sends itself this signal at this moment."""
    folder = _folder(cli_env)
    (folder / "sitecustomize.py").write_text(_FOREGROUND + _hook(moment, number))
    return {"PYTHONPATH": str(folder)}


def signal_supervisor(cli_env: CliEnv, moment: Moment, number: signal.Signals) -> dict[str, str]:
    """The environment in which every supervisor that is started sends itself this signal at this moment."""
    folder = _folder(cli_env)
    wrapper = folder / "supervisor"
    wrapper.write_text(_WRAPPER.format(python=sys.executable, hook=_hook(moment, number)))
    wrapper.chmod(0o755)
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.executable = {str(wrapper)!r}\n")
    return {"PYTHONPATH": str(folder)}


def _hook(moment: Moment, number: signal.Signals) -> str:
    return _HOOK.format(event=moment.event, end=moment.end, number=int(number))


def _folder(cli_env: CliEnv) -> Path:
    folder = cli_env.root / "moment"
    folder.mkdir(exist_ok=True)
    return folder
