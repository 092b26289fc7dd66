"""The verbs of `Answers` as tools of an assistant, by the Model Context Protocol."""

from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rae.errors import MissingExtraError, RaeError, one_line
from rae.service.answers import VERBS, Answers
from rae.version import __version__

if TYPE_CHECKING:
    from mcp.server import MCPServer

ABOUT = (
    "Answers about a graph whose nodes have vectors and roles: nodes in one role have neighbourhoods that are alike, "
    "wherever they are. `roles` lists the roles and `card` describes one; `search` finds nodes by the first letters of "
    "their id or name; `role` says what a node is, `similar` which nodes are like it; `embed` answers for a node that "
    "is not there yet."
)


def check_installed() -> None:
    """Refuse a server whose library is not installed."""
    if importlib.util.find_spec("mcp") is None:
        raise MissingExtraError("mcp", "mcp", "`rae mcp`")


def make_server(answers: Answers) -> MCPServer[Any]:
    """A server with a tool for each verb; those that change the run only where it may be changed."""
    check_installed()
    from mcp.server import MCPServer
    from mcp_types import ToolAnnotations

    server: MCPServer[Any] = MCPServer("rae", version=__version__, instructions=ABOUT, log_level="WARNING")
    for verb in VERBS:
        if verb.writes and not answers.writable:
            continue
        answer = getattr(answers, verb.name)
        hints = ToolAnnotations(
            read_only_hint=not verb.writes, destructive_hint=verb.writes, idempotent_hint=not verb.writes,
            open_world_hint=False,
        )  # fmt: skip
        server.add_tool(_tool(answer), verb.name, description=inspect.getdoc(answer), annotations=hints)
    return server


def _tool(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The verb as a tool; an error of the library is returned as its sentence."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(answer)
    def tool(*args: Any, **named: Any) -> Any:
        try:
            return answer(*args, **named)
        except RaeError as error:
            raise ToolError(str(error)) from error
        except OSError as error:
            raise ToolError(one_line(error)) from error

    return tool
