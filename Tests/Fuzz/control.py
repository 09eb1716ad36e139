"""control.py MOUNTPOINT SECONDS SEED FSCTL HUB INVITE…: sends damaged requests to a control socket.

Exits with 1 and prints what was sent if the daemon does not serve a good client correctly.
"""
import json
import os
import random
import socket
import subprocess
import sys
import time

from mutations import spoil, spoil_bytes

# Valid fields of each request. The daemon lists its verbs, so that none is forgotten here.
CLAIM = {"claim": 1, "access": [{"path": "a.txt", "read": []}, {"path": "d/b.txt", "write": "update"}]}
FIELDS = {
    "status": [{}, {"path": "a.txt"}, {"document": "ID"}, {"path": "a.txt", "local": True}],
    "versions": [
        {"path": "a.txt"}, {"path": "d", "deleted": True}, {"path": "a.txt", "earlier": True},
        {"document": "ID", "local": True}],
    "contents": [{"path": "a.txt", "number": 1, "entry": 0}, {"document": "ID", "number": 2}],
    "extract": [{"document": "ID", "number": 1, "entry": 0, "offset": 0, "length": 100}],
    "name": [{"path": "a.txt", "number": 1, "label": "draft"}],
    "forget": [{"path": "d/c.txt", "number": 1}],
    "purge": [{"path": "d", "time": 1, "bytes": 10, "explain": True}, {"path": "d/c.txt"}],
    "add": [{"path": "a.txt", "from": "d/b.txt", "program": "fuzz"}],
    "wait": [{"path": "a.txt", "durability": "disk", "timeoutSeconds": 0.2}],
    "doctor": [{"repair": False}, {"repair": True}],
    "statistics": [{}],
    "stop": [{}],
    "signin": [{
        "address": "http://127.0.0.1:1", "code": "x", "deviceName": "dev", "volumeName": "team",
        "certificate": "/nowhere", "insecure": True}],
    "signout": [{"force": True}],
    "identity": [{}],
    "devices": [{}],
    "revoke": [{"device": "ID"}],
    "offline": [{}],
    "online": [{}],
    "brake": [{"release": True}, {}],
    "activity": [{}],
    "members": [{}],
    "member": [
        {"change": "add", "user": "bob", "role": "editor"},
        {"change": "remove", "user": "bob"}],
    "volumes": [{}],
    "links": [{}, {"path": "d"}],
    "link": [
        {"change": "make", "path": "a.txt", "edits": True, "password": "secret word", "time": 1},
        {"change": "revoke", "link": "ID"}],
    "limit": [{"upload": 0, "download": 1 << 20}],
    "conflicts": [{"path": ""}],
    "resolve": [{"path": "a.txt", "number": 1, "numbers": [1, 2], "program": "x"}, {"path": "a.txt", "undo": True}],
    "merge": [{"path": "a.txt", "numbers": [1]}, {"path": "a.txt", "explain": True, "number": 1}],
    "revert": [
        {"path": "a.txt", "session": "agent-7", "program": "x"},
        {"path": "a.txt", "session": "agent-7", "person": "root", "time": 1, "explain": True}],
    "sessions": [{"path": "d", "session": "agent-7"}, {"session": "agent-7", "person": "root", "time": 1}],
    "past": [{"path": "d", "time": 1_700_000_000_000_000_000}],
    "download": [{"path": "d"}],
    "evict": [{"path": "d/c.txt", "force": True}],
    "pin": [{"path": "d/c.txt"}],
    "unpin": [{"path": "d/c.txt"}],
    "pins": [{"path": "d"}, {"missing": True}],
    "claim": [CLAIM, dict(CLAIM, **{"try": True, "purposes": ["p"], "presenters": [1], "process": os.getpid()})],
    "release": [{"claim": 1}],
    "cancel": [{"claim": 1}],
    "prepare": [{"claim": 1, "access": [{"path": "a.txt", "write": "deleting"}]}],
    "moved": [{"path": "a.txt", "to": "d/z.txt", "claim": 1}],
    "present": [{"presenter": 1, "path": "a.txt", "hears": ["relinquishToWriter", "save", "changed"]}],
    "retire": [{"presenter": 1}],
    "answer": [{"presenter": 1, "turn": 1, "failure": "no"}],
    "locks": [{}, {"path": "d"}],
    "who": [{"path": "d"}, {"path": "a.txt"}],
    "watch": [{"path": "d"}, {}],
}
# A valid request of these would end the test.
ENDING = ("stop", "signout")


class Fault(Exception):
    """A wrong answer of the daemon."""


class Fuzzer:
    """Sends slightly wrong requests to the daemon of a mount."""

    def __init__(self, mount, seed, fsctl, hub, invite):
        self.mount, self.random = mount, random.Random(seed)
        self.fsctl, self.hub, self.invite = fsctl, hub, invite
        self.sent, self.answers, self.refused, self.turn = b"", 0, 0, 0
        self.polite = None
        os.makedirs(os.path.join(mount, "d"), exist_ok=True)
        for name in ("a.txt", "d/b.txt", "d/c.txt"):
            for text in ("one", "two", "three"):
                self.write(name, text)
        unknown = self.ask({"verb": "nonsense"})["error"]["message"]
        verbs = set(unknown.split("knows ")[1].split(", "))
        if verbs != set(FIELDS):
            raise Fault("requests without an example: %s" % (verbs ^ set(FIELDS)))
        self.document = self.ask({"verb": "status", "path": "a.txt"})["result"]["id"]

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        try:
            client.connect(os.getxattr(self.mount, "user.concord.socket").decode())
        except OSError as error:
            raise Fault("the daemon cannot be reached: %r" % error) from error
        return client

    def write(self, name, text):
        with open(os.path.join(self.mount, name), "w") as file:
            file.write(text + "\n")

    def ask(self, request):
        """Returns the answer to a valid request on a persistent connection."""
        if self.polite is None:
            self.polite = self.connect().makefile("rw")
        print(json.dumps(dict(id=7, **request)), file=self.polite, flush=True)
        while True:
            line = self.polite.readline()
            if not line:
                self.polite = None
                raise Fault("a good client was dropped at %r" % request)
            answer = json.loads(line)
            if answer.get("id") == 7 and "ok" in answer:
                return answer

    def message(self):
        """Returns one request: valid, or with damaged fields."""
        verb = self.random.choice(list(FIELDS))
        fields = json.loads(json.dumps(self.random.choice(FIELDS[verb])))
        for key, value in fields.items():
            if value == "ID":
                fields[key] = self.document if verb != "revoke" else "%032x" % self.random.getrandbits(128)
        request = dict(id=self.random.randrange(5), verb=verb, **fields)
        if self.random.random() < 0.75 or verb in ENDING:
            request = spoil(self.random, request)
        if isinstance(request, dict) and request.get("verb") in ENDING:
            request["verb"] = request["verb"].upper()
        return json.dumps(request).encode()

    def rude(self):
        """Sends some lines on a new connection; answers are read for a moment, or not at all."""
        lines = [self.message() for _ in range(self.random.randrange(1, 12))]
        raw = b"\n".join(lines) + self.random.choice([b"\n", b"\n", b"\n", b""])
        if self.random.random() < 0.3:
            raw = spoil_bytes(self.random, raw)
            for verb in ENDING:
                raw = raw.replace(b'"%s"' % verb.encode(), b'"%s"' % verb.upper().encode())
        self.sent = raw
        with self.connect() as client:
            try:
                client.sendall(raw)
                if self.random.random() < 0.2:
                    return
                client.shutdown(socket.SHUT_WR)
                client.settimeout(0.1)
                said = b""
                while piece := client.recv(1 << 20):
                    said = (said + piece)[-(4 << 20):]
            except OSError:
                pass
            else:
                for line in said.split(b"\n")[1:-1]:
                    self.judge(json.loads(line))

    def judge(self, answer):
        """Checks that an answer is a result or an error with a sentence."""
        self.answers += 1
        if answer.get("ok") is False:
            self.refused += 1
            if not answer["error"]["message"] or not answer["error"]["code"]:
                raise Fault("no sentence: %r" % answer)

    def works(self):
        """Checks that a good client is served: claims, states, files and their versions."""
        self.turn += 1
        access = [{"path": "good", "write": "update"}]
        claimed = self.ask({"verb": "claim", "claim": self.turn, "access": access})
        released = self.ask({"verb": "release", "claim": self.turn})
        if not claimed["ok"] or not released["ok"]:
            raise Fault("no turn: %r %r" % (claimed, released))
        text = "text %d" % self.turn
        self.write("good", text)
        waited = self.ask({"verb": "wait", "path": "good", "durability": "disk", "timeoutSeconds": 60})
        if not waited["ok"]:
            raise Fault("not recorded: %r" % waited)
        versions = self.ask({"verb": "versions", "path": "good"})["result"]["versions"]
        if versions[-1]["kind"] != "current" or versions[-1]["size"] != len(text) + 1:
            raise Fault("the last version is %r" % versions[-1])
        with open(os.path.join(self.mount, "good")) as file:
            if file.read() != text + "\n":
                raise Fault("a file has other contents")
        if not self.ask({"verb": "status"})["ok"]:
            raise Fault("no status")

    def settle(self):
        """Undoes the effects of valid requests: the volume is online, unlimited and signed in."""
        for request in ({"verb": "online"}, {"verb": "limit", "upload": 0, "download": 0}, {"verb": "brake", "release": True}):
            self.ask(request)
        if self.ask({"verb": "status"})["result"].get("hub") is None:
            said = subprocess.run(self.invite + ["ann"], check=True, capture_output=True, text=True)
            subprocess.run(
                [self.fsctl, "signin", self.hub, "--code", said.stdout.split("\n")[-2], "--at", self.mount],
                check=True)

    def run(self, seconds):
        end, count = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            count += 1
            self.rude()
            if count % 50 == 0:
                self.works()
            if count % 500 == 0:
                self.settle()
        self.works()
        self.settle()
        print("control socket: %d connections, %d answers, %d of them refusals" % (count, self.answers, self.refused))


def main(mount, seconds, seed, fsctl, hub, *invite):
    """Exits with 1 and prints what was sent if something is wrong."""
    fuzzer = None
    try:
        fuzzer = Fuzzer(mount, int(seed), fsctl, hub, list(invite))
        fuzzer.run(float(seconds))
    except Fault as fault:
        sent = fuzzer.sent[:6000] if fuzzer else b""
        print("control socket: %s\nafter %r" % (fault, sent), file=sys.stderr)
        sys.exit(1)


main(*sys.argv[1:])
