"""An agent of one's own: a model, a yard, and the loop between them. `open_agent` opens one."""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.agent.agent import Agent
    from sealyard.agent.models import Model, open_model
    from sealyard.agent.opening import open_agent

__all__ = ("Agent", "Model", "open_agent", "open_model")

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(__name__, agent="Agent", models="Model open_model", opening="open_agent")
