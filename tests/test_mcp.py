"""The tools of an assistant, called by the client of the official SDK."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from rae import Graph, fit_run
from rae.run import Run
from rae.service.answers import VERBS, Answers

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from rae.service.mcp import make_server


class _Replies(io.BytesIO):
    """What was written before it was closed; `answered` is set when the reply to request 2 is there."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.answered = b"", threading.Event()

    def write(self, data) -> int:
        self.all += bytes(data)
        if b'"id":2' in self.all.replace(b" ", b""):
            self.answered.set()
        return super().write(data)


class _Requests(io.BytesIO):
    """Requests, whose sender waits for the last reply before it hangs up."""

    def __init__(self, data: bytes, replies: _Replies) -> None:
        super().__init__(data)
        self.replies = replies

    def read1(self, size: int = -1) -> bytes:
        data = super().read1(size)
        if not data:
            self.replies.answered.wait(20)
        return data


@pytest.fixture
def run(tmp_path) -> Run:
    drawn = np.random.default_rng(0).integers(0, 40, (90, 2))
    run = fit_run(Graph.from_edges(drawn), out=tmp_path / "run", page=False)
    run.fit_roles(3)
    return run


def with_client(run: Run, work, *, writable: bool = False):
    """What `work` returns of a client that is connected to a server of this run."""

    async def connected():
        with Answers.open(run, writable=writable) as answers:
            async with Client(make_server(answers)) as client:
                return await work(client)

    return anyio.run(connected)


def test_an_assistant_asks_what_a_run_answers(run):
    async def ask(client):
        names = [tool.name for tool in (await client.list_tools()).tools]
        asked = {
            "similar": {"id": 7, "k": 2},
            "role": {"id": "7"},
            "card": {"role": 1},
            "roles": {},
            "why": {"id": "7"},
            "search": {"q": 1},
            "embed": {"neighbours": [1, 2]},
        }
        replies = {name: await client.call_tool(name, arguments) for name, arguments in asked.items()}
        assert not any(reply.is_error for reply in replies.values())
        return names, {name: reply.structured_content for name, reply in replies.items()}

    names, answers = with_client(run, ask)
    assert names == [verb.name for verb in VERBS if not verb.writes]
    assert [m["id"] for m in answers["similar"]["matches"]] == [id for id, _ in run.similar(7, 2).matches]
    assert answers["role"]["summary"] == run.card(7).summary
    assert answers["card"]["role"] == 1
    assert len(answers["roles"]["roles"]) == 3
    assert (answers["why"]["text"], answers["why"]["measured"]) == (str(run.why(7)), run.why(7).as_dict())
    assert {node["id"] for node in answers["search"]["nodes"]} >= {1, 10}
    assert np.array_equal(np.float32(answers["embed"]["vector"]), run.embed(neighbours=[1, 2]))


def test_what_cannot_be_answered_comes_back_as_a_sentence(run):
    async def ask(client):
        return [
            (await client.call_tool(name, arguments)).content[0].text
            for name, arguments in (("role", {"id": "nobody"}), ("card", {"role": 9}), ("similar", {}))
        ]

    unknown, no_role, malformed = with_client(run, ask)
    assert "there is no node 'nobody'; ids here are such as" in unknown
    assert "there is no role 9; roles here are 0 to 2" in no_role
    assert "Field required" in malformed


def test_nothing_is_changed_unless_it_is_allowed(run):
    async def change(client):
        return await client.call_tool("edges", {"added": [[1, 999]]})

    async def tools(client):
        return {tool.name: tool.annotations for tool in (await client.list_tools()).tools}

    assert with_client(run, change).is_error
    assert run.n_updates == 0
    reply = with_client(run, change, writable=True)
    assert (reply.is_error, reply.structured_content["new_nodes"], run.n_updates) == (False, 1, 1)
    hints = with_client(run, tools, writable=True)
    assert [name for name, hint in hints.items() if not hint.read_only_hint] == ["edges"]
    assert hints["edges"].destructive_hint


def test_a_disk_that_refuses_is_said_so(run, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    async def change(client):
        monkeypatch.setattr(Run, "update", full)
        return (await client.call_tool("edges", {"added": [[1, 999]]})).content[0].text

    assert "No space left on device" in with_client(run, change, writable=True)


def test_the_command_speaks_the_protocol_until_its_input_ends(run, rae, monkeypatch):
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "card", "arguments": {"role": 0}}},
    ]
    text = "".join(json.dumps(message) + "\n" for message in messages).encode()
    output = _Replies()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(_Requests(text, output)))
        patch.setattr(sys, "stdout", io.TextIOWrapper(output, write_through=True))
        code, _, err = rae("mcp", run.path)
    assert code == 0, err
    replies = {reply["id"]: reply for reply in map(json.loads, output.all.decode().splitlines())}
    assert replies[1]["result"]["serverInfo"]["name"] == "rae"
    assert replies[2]["result"]["structuredContent"]["role"] == 0
    assert "ready in" in err


@pytest.mark.slow
def test_an_assistant_starts_the_command_itself(run):
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "rae", "--quiet", "mcp", str(run.path), "--write"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
    )

    async def ask():
        async with Client(stdio_client(command)) as client:
            changed = await client.call_tool("edges", {"added": [[1, 999]]})
            return changed.structured_content, (await client.call_tool("role", {"id": 999})).structured_content

    changed, answer = anyio.run(ask)
    assert (changed["new_nodes"], answer["id"]) == (1, 999)
    assert run.n_updates == 1
