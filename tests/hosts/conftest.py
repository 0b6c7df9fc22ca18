"""The stages of the in-process tests, for every host."""

from tests.api.conftest import agents as agents
from tests.api.conftest import run_env as run_env
from tests.api.conftest import use_fake_agent as use_fake_agent
