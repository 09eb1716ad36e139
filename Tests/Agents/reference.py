#!/usr/bin/env python3
"""Uses `fsctl mcp` with the reference client of the Model Context Protocol: `make test-agents`.

Mounts a volume, and lets two agents, each a client with a server of its own, work on one document
in it: they read, save from what they read, merge, claim, and undo what one of them did.
"""

import argparse
import asyncio
import os
import subprocess
import tempfile
import time

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

LINES = "one\ntwo\nthree\nfour\nfive\n"


class Volume:
    """A mounted volume, and programs that use it."""

    def __init__(self, binaries, scratch):
        self.binaries, self.root = binaries, f"{scratch}/mount"
        os.mkdir(self.root)
        self.daemon = subprocess.Popen(
            [f"{binaries}/concord", "mount", "--foreground", "--store", f"{scratch}/store", self.root],
            stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while not os.path.ismount(self.root):
            assert self.daemon.poll() is None, "the volume could not be mounted"
            time.sleep(0.05)

    def end(self):
        subprocess.run(["umount", self.root], check=True)
        self.daemon.wait(60)

    def path(self, name):
        return f"{self.root}/{name}"

    def put(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def text(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def agent(self, session):
        return StdioServerParameters(
            command=f"{self.binaries}/fsctl", args=["mcp", self.root],
            env={"CONCORD_SESSION": session, "PATH": os.environ["PATH"]})


class Agent:
    def __init__(self, session):
        self.session = session

    async def use(self, tool, **arguments):
        """What the tool answers. The client itself checks it against the tool's output schema."""
        result = await self.session.call_tool(tool, arguments)
        assert not failed(result), f"{tool} {arguments}: {result.content[0].text}"
        return structured(result)

    async def refusal(self, tool, **arguments):
        result = await self.session.call_tool(tool, arguments)
        assert failed(result), f"{tool} {arguments} answered {result}"
        return result.content[0].text


def either(result, *names):
    """The names of fields differ between releases of the client."""
    return next(getattr(result, name) for name in names if hasattr(result, name))


def failed(result):
    return either(result, "is_error", "isError")


def structured(result):
    return either(result, "structured_content", "structuredContent")


async def greet(agent):
    hello = await agent.session.initialize()
    version = either(hello, "protocol_version", "protocolVersion")
    info = either(hello, "server_info", "serverInfo")
    await agent.session.send_ping()
    tools = (await agent.session.list_tools()).tools
    names = sorted(tool.name for tool in tools)
    assert names == sorted([
        "claim", "conflicts", "list", "merge", "read", "release", "resolve", "restore", "rewind",
        "versions", "write"]), names
    assert all(tool.description for tool in tools)
    print(f"{info.name} {info.version} speaks {version}; tools: {', '.join(names)}")


async def save(volume, one, two):
    first = await one.use("read", path="a.txt")
    assert first["text"] == LINES
    second = await two.use("read", path="a.txt")
    mine = await one.use("write", path="a.txt", text=LINES.replace("one", "ONE"), base=first["version"])
    assert mine["outcome"] == "saved", mine
    theirs = await two.use("write", path="a.txt", text=LINES.replace("five", "FIVE"), base=second["version"])
    assert theirs["outcome"] == "merged", theirs
    assert volume.text("a.txt") == LINES.replace("one", "ONE").replace("five", "FIVE")
    print("a save from an old version is merged with what the other agent saved")

    last = await one.use("write", path="a.txt", text=LINES.replace("one", "uno"), base=first["version"])
    assert last["outcome"] == "conflict" and len(last["conflicts"]) == 1, last
    assert volume.text("a.txt").startswith("uno")
    assert len((await two.use("conflicts"))["documents"]) == 1
    await two.use("resolve", path="a.txt", keep="current")
    assert (await one.use("conflicts"))["documents"] == []
    print("what cannot be merged is a conflict version, which the other agent settles")


async def claim(volume, one, two):
    made = await one.use("claim", path="a.txt", access="write")
    said = await two.refusal("claim", path="a.txt", access="write", wait=False)
    print(f"a claim on what is claimed is refused: {said}")
    await one.use("release", claim=made["claim"])
    again = await two.use("claim", path="a.txt", access="write")
    await two.use("release", claim=again["claim"])
    assert "served folder" in await two.refusal("read", path="../store/journal.sqlite")


async def undo(volume, one, two):
    await one.use("write", path="one.txt", text="by one\n")
    await two.use("write", path="two.txt", text="by two\n")
    plan = await two.use("rewind", by="agent-1", dry_run=True)
    assert os.path.exists(volume.path("one.txt")), "a dry run changes nothing"
    await two.use("rewind", by="agent-1")
    assert not os.path.exists(volume.path("one.txt"))
    assert volume.text("two.txt") == "by two\n"
    print(f"what one session did is undone, and the other's work stays: {plan}")


async def main(volume):
    volume.put("a.txt", LINES)
    async with stdio_client(volume.agent("agent-1")) as (reading, writing), \
            ClientSession(reading, writing) as first, \
            stdio_client(volume.agent("agent-2")) as (reading2, writing2), \
            ClientSession(reading2, writing2) as second:
        one, two = Agent(first), Agent(second)
        for agent in (one, two):
            await greet(agent)
        await save(volume, one, two)
        await claim(volume, one, two)
        await undo(volume, one, two)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("binaries")
with tempfile.TemporaryDirectory(prefix="concord-agents.") as scratch:
    volume = Volume(parser.parse_args().binaries, scratch)
    try:
        asyncio.run(asyncio.wait_for(main(volume), 120))
    finally:
        volume.end()
