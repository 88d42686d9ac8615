"""What the author of a function uses beside the function itself."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar, overload

import msgspec

from sealyard.values.tools import ToolAnnotations

_F = TypeVar("_F", bound=Callable[..., Any])
Report = Callable[[float, float | None, str | None], None]
REPORT: ContextVar[Report | None] = ContextVar("report", default=None)
"""Receives the progress of the call in this context."""
_MARK = "__sealyard_tool__"


class CallContext:
    """The facts about a call that its caller cannot choose.

    The gateway fills each parameter with this annotation. It is in no schema, and no JSON converts to it.
    """

    __slots__ = ("execution_id", "principal", "session")

    def __init__(self, *, principal: str, session: str, execution_id: str) -> None:
        self.principal = principal
        """The name of an authenticated client, or `local`."""
        self.session = session
        """Begins with the principal and a colon; the client chooses the rest."""
        self.execution_id = execution_id

    def __repr__(self) -> str:
        return (
            f"CallContext(principal={self.principal!r}, session={self.session!r}, execution_id={self.execution_id!r})"
        )


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A function's name as a tool, and the claims about its effects."""

    name: str | None = None
    """By default the function's own."""
    annotations: ToolAnnotations = ToolAnnotations()

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "Mark":
        """The mark that `tool` has set; by default an empty one."""
        mark = getattr(function, _MARK, None)
        return mark if isinstance(mark, cls) else cls()


@overload
def tool(function: _F, /) -> _F: ...


@overload
def tool(
    *,
    name: str | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
) -> Callable[[_F], _F]: ...


def tool(function: Any = None, /, *, name: str | None = None, **effects: bool | None) -> Any:
    """Give a function another name as a tool, and claims about its effects. The function itself stays as it is.

    It makes nothing a tool: the public functions of a configured module are tools with and without it.
    """
    mark = Mark(name=name, annotations=ToolAnnotations(**effects))

    def set_mark(function: _F) -> _F:
        setattr(function, _MARK, mark)
        return function

    return set_mark if function is None else set_mark(function)


def report_progress(progress: float, total: float | None = None, message: str | None = None) -> None:
    """Report the progress of the running tool to its caller. Does nothing outside a call, or after it."""
    if (report := REPORT.get()) is not None:
        report(progress, total, message)
