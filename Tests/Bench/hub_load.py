"""Simulated devices of a hub, and what they send: requests that are made before they are timed (see hubload.c)."""
import base64
import bisect
import json
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Fuzz"))
from device import Device, manifest  # noqa: E402

CHUNKS, CHUNK_BYTES = 200, 1000


def identifier():
    return "%032x" % random.getrandbits(128)


def address(number):
    """A hub limits the connections of one address."""
    return "127.0.0.%d" % (1 + number // 250)


class Editor:
    """A device that edits documents of its own, each again and again."""

    def __init__(self, device, documents=100):
        self.device, self.documents, self.turn = device, [], 0
        frames = [device.frame(random.randbytes(CHUNK_BYTES)) for _ in range(CHUNKS)]
        self.contents = [self.content(frame[-CHUNK_BYTES:], chunk) for frame, chunk in frames]
        device.good("POST", device.path("chunks"), b"".join(frame for frame, _ in frames))
        directory = identifier()
        device.commit([device.directory(directory, "of " + device.id)])
        operations = []
        for number in range(documents):
            operation = self.creation("document %d" % number, directory)
            operations.append(operation)
            self.documents.append((operation["item"], operation["change"]["create"]["revision"]["id"]))
        for result in device.commit(operations)["results"]:
            assert result["verdict"]["is"] == "applied", result

    @staticmethod
    def content(data, chunk):
        return {"manifest": base64.b64encode(manifest(data)).decode(), "chunks": base64.b64encode(chunk).decode()}, chunk

    def version(self, parents, content=None, size=CHUNK_BYTES):
        content, chunk = content or self.contents[random.randrange(len(self.contents))]
        note = dict.fromkeys(("deviceName", "person", "program", "name"), "x")
        note.update(modified=1, saved=1)
        return {
            "id": identifier(), "parents": parents, "content": "01" + chunk.hex(), "size": size,
            "moment": {"time": time.time_ns(), "device": self.device.id}, "sequence": 0, "equals": [],
            "note": note}, content

    def creation(self, name, directory, content=None, size=CHUNK_BYTES):
        revision, content = self.version([], content, size)
        change = {"do": "create", "create": {
            "kind": 1, "attributes": {}, "placement": self.device.placement(name, directory), "revision": revision}}
        return self.device.operation(identifier(), change, content=content)

    def edit(self, content=None):
        """Returns the next operation: an edit of the document that was not edited for the longest time."""
        place = self.turn % len(self.documents)
        self.turn += 1
        item, former = self.documents[place]
        revision, content = self.version([former], content)
        self.documents[place] = item, revision["id"]
        return self.device.operation(item, {"do": "edit", "revision": revision}, content=content)

    def request(self, call, body, kind="application/octet-stream"):
        return head("POST", self.device.path(call), self.device.token, "Content-Type: %s\r\nContent-Length: %d\r\n" % (
            kind, len(body))) + body

    def commit(self, operations):
        device = self.device
        return self.request("commit", json.dumps({
            "device": device.id, "epoch": device.epoch, "volumeEpoch": device.volume["epoch"],
            "operations": operations, "sent": time.time_ns()}).encode(), "application/json")

    def edits(self, commits, together=1):
        """Returns commits of edits whose contents the hub has."""
        return [self.commit([self.edit() for _ in range(together)]) for _ in range(commits)]

    def creations(self, count, size=200):
        """Returns what is sent for a directory with so many documents, each with contents of its own."""
        directory, device = identifier(), self.device
        frames = [device.frame(random.randbytes(size)) for _ in range(count - 1)]
        operations = [device.directory(directory, directory)]
        operations += [
            self.creation("document %d" % number, directory, self.content(frame[-size:], chunk), size)
            for number, (frame, chunk) in enumerate(frames)]
        return [self.request("chunks", b"".join(frame for frame, _ in frames)), self.commit(operations)]

    def page(self, after):
        device = self.device
        return head("GET", device.path("changes") + "?after=%d" % after, device.token,
                    "Accept: application/octet-stream\r\nConcord-Epoch: %s\r\n" % device.volume["epoch"])

    def saves(self, commits, together):
        """Returns what a device sends for edits with new contents: which chunks are missing, the chunks, the commit."""
        requests = []
        for _ in range(commits):
            frames = [self.device.frame(random.randbytes(CHUNK_BYTES)) for _ in range(together)]
            contents = [self.content(frame[-CHUNK_BYTES:], chunk) for frame, chunk in frames]
            requests += [
                self.request("have", b"".join(chunk for _, chunk in frames)),
                self.request("chunks", b"".join(frame for frame, _ in frames)),
                self.commit([self.edit(content) for content in contents])]
        return requests


def head(method, path, token, more=""):
    return ("%s %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n%s\r\n" % (method, path, token, more)).encode()


class Split:
    """Another device of the same account, which only listens."""

    def __init__(self, device, number):
        answer = device.good("POST", "/v1/devices/self/split", {"device": identifier(), "deviceName": "d%d" % number})
        self.token, self.path = answer["token"], device.path

    def feed(self):
        return head("GET", self.path("feed"), self.token)


class Plan:
    """What connections send, each to one of the hubs."""

    def __init__(self, hubs):
        self.hubs, self.parts, self.count = hubs, [], 0

    def add(self, requests, kind="line", pace=0):
        number = self.count
        self.count += 1
        port = self.hubs.ports[number % len(self.hubs.ports)]
        self.parts.append(b"%s %d %s %d %d\n" % (
            kind.encode(), port, address(number).encode(), pace, len(requests)))
        self.parts += [b"%d\n%s" % (len(request), request) for request in requests]
        return number

    def begin(self, tools, idle=0):
        return Run(self, tools, idle)


class Run:
    """A plan that is carried out."""

    def __init__(self, plan, tools, idle):
        self.path = os.path.join(tools, "plan")
        with open(self.path, "wb") as file:
            file.write(b"".join(plan.parts))
        self.process = subprocess.Popen(
            [os.path.join(tools, "hubload"), self.path, str(idle)], stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the feeds were not opened")

    def end(self):
        """Waits for the end, and returns the results."""
        text = self.process.stdout.read()
        if self.process.wait():
            raise RuntimeError("the load generator failed")
        os.remove(self.path)
        return Answers(text)


class Answers:
    """What the connections of a plan were answered. Times are in seconds."""

    def __init__(self, text):
        self.answers, self.hints = [], {}
        for line in text.splitlines():
            words = line.split()
            numbers = [int(word) for word in words[1:]]
            if words[0] == "r":
                self.answers.append((numbers[0], numbers[1] / 1e6, numbers[2] / 1e6, *numbers[3:]))
            elif words[0] == "f":
                self.hints.setdefault(numbers[0], []).append((numbers[2], numbers[1] / 1e6))
            else:
                self.cpu, self.received, self.idle_bytes = numbers[0] / 1e6, numbers[1], numbers[2]
        bad = [answer for answer in self.answers if answer[3] != 200]
        if bad:
            raise RuntimeError("%d of %d requests were answered by %d" % (len(bad), len(self.answers), bad[0][3]))

    @property
    def seconds(self):
        return max(answer[2] for answer in self.answers) - min(answer[1] for answer in self.answers)

    @property
    def applied(self):
        return sum(answer[5] for answer in self.answers)

    def times(self):
        return sorted(answer[2] - answer[1] for answer in self.answers)

    def told(self):
        """Returns, sorted, how long after a commit was sent each feed said its head, and how many never did."""
        times, missing = [], 0
        commits = [(answer[4], answer[1]) for answer in self.answers]
        for hints in self.hints.values():
            heads = [head for head, _ in hints]
            for head, start in commits:
                place = bisect.bisect_left(heads, head)
                if place < len(hints):
                    times.append(hints[place][1] - start)
                else:
                    missing += 1
        return sorted(times), missing


def part(times, share):
    return times[min(len(times) - 1, int(len(times) * share))]


def editor(hubs, user, number=0, documents=100):
    return Editor(Device(hubs.address(number % len(hubs.ports)), hubs.invite(), user), documents)


def another(first, hubs, number, documents=100):
    """Another device of the account and volume of an editor."""
    device = Device.__new__(Device)
    device.__dict__.update(first.device.__dict__)
    device.line = type(first.device.line)(hubs.address(number % len(hubs.ports)))
    answer = first.device.good("POST", "/v1/devices/self/split", {"device": identifier(), "deviceName": "e%d" % number})
    device.token, device.id, device.epoch, device.number = answer["token"], answer["device"], answer["epoch"], 1
    return Editor(device, documents)
