"""probe.py SECRETS TIME…: prints all that this user learns about a volume, which is the current directory.

SECRETS is a JSON file with the paths and ids of documents, also of deleted ones, as if the user had guessed
them. Each line of the output begins with the way by which something was learned. What was guessed is not
printed: names are shown only if the volume tells them.
"""
import base64
import json
import os
import socket
import subprocess
import sys

KEPT = 400


class Probe:
    """Tries every way to look at a volume."""

    def __init__(self, secrets, times):
        self.paths, self.ids, self.times = secrets["paths"], secrets["ids"], times
        self.socket = os.getxattr(".", "user.concord.socket").decode()
        self.lines, self.number, self.guessed = None, 0, []

    def say(self, way, told, guessed=()):
        """Prints what was told, without what was guessed."""
        text = told if isinstance(told, str) else told.decode("latin-1")
        for guess in sorted({part for path in guessed for part in (path, os.path.basename(path))}, key=len)[::-1]:
            text = text.replace(guess, "?") if guess else text
        for start in range(0, len(text), 1 << 16):
            print(way, repr(text[start:start + (1 << 16) + 100]))

    # Files

    def read(self, way, path, guessed=()):
        """Prints the size and the beginning of a file, the target of a link, or what is in a directory."""
        try:
            status = os.lstat(path)
            self.say(way, "size %d" % status.st_size, guessed)
        except OSError:
            return
        try:
            for name in os.listdir(path):
                self.say(way, name, guessed)
                self.read(way, os.path.join(path, name), guessed)
            return
        except OSError:
            pass
        try:
            with open(path, "rb") as file:
                self.say(way, file.read(KEPT), guessed)
        except OSError:
            pass
        try:
            self.say(way, os.readlink(path), guessed)
        except OSError:
            pass

    def directories(self):
        """All directories that can be listed, and those that are guessed."""
        found = {""} | {os.path.dirname(path) for path in self.paths}
        for path, names, _ in os.walk("."):
            found.update(os.path.relpath(os.path.join(path, name), ".") for name in names)
        return sorted(found)

    def files(self):
        for directory in self.directories():
            guessed = [path for path in self.paths if os.path.dirname(path) == directory]
            place = os.path.join(directory, ".versions")
            self.read("versions", place)
            for path in guessed:
                self.read("versions", os.path.join(place, os.path.basename(path)), [path])
            for time in self.times:
                past = os.path.join(place, "@" + time)
                self.read("past", past)
                for path in self.paths:
                    if path.startswith(directory):
                        self.read("past", os.path.join(past, os.path.relpath(path, directory or ".")), [path])
            place = os.path.join(directory, ".conflicts")
            self.read("conflicts-directory", place)
            for path in guessed:
                self.read("conflicts-directory", os.path.join(place, os.path.basename(path)), [path])

    # Commands

    def fsctl(self, way, *words, guessed=()):
        done = subprocess.run(["fsctl", *words], capture_output=True, check=False)
        self.say(way, done.stdout[:1 << 20], guessed)
        self.say(way, done.stderr[:1 << 16], guessed)

    def commands(self):
        for directory in self.directories():
            place = directory or "."
            for time in self.times:
                self.fsctl("rewind", "rewind", place, "--to", time, "--dry-run", "--json", guessed=[directory])
            self.fsctl("conflicts", "conflicts", place, "--json", guessed=[directory])
        for path in self.paths:
            self.fsctl("conflicts", "conflicts", path, "--json", guessed=[path])
            self.fsctl("rewind", "rewind", path, "--to", self.times[0], "--dry-run", "--json", guessed=[path])
            for number in range(1, 5):
                self.fsctl("show", "show", path, str(number), guessed=[path])
                self.fsctl("show", "show", path, str(number), "--json", guessed=[path])

    # The socket

    def ask(self, **request):
        """Returns the answer to a request, and prints it with all lines before it."""
        if self.lines is None:
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(30)
            client.connect(self.socket)
            self.lines = client.makefile("rw")
        self.number += 1
        print(json.dumps(dict(id=self.number, **request)), file=self.lines, flush=True)
        while True:
            line = self.lines.readline()
            if not line:
                self.lines = None
                return {}
            answer = json.loads(line)
            self.say("socket", line, self.guessed)
            if answer.get("id") == self.number and "ok" in answer:
                return answer.get("result") or {}

    def requests(self, place):
        """Everything about one path or one id that changes nothing."""
        times = [1, 1_000_000_000_000_000_000]
        for more in ({}, {"earlier": True}, {"deleted": True}, {"local": True}):
            self.ask(verb="versions", **place, **more)
            self.ask(verb="status", **place, **more)
        self.ask(verb="status", **place, entries=True)
        self.ask(verb="wait", **place, durability="disk", timeoutSeconds=0.2)
        for number in range(1, 5):
            self.ask(verb="contents", **place, number=number)
            for entry in range(2):
                told = self.ask(verb="extract", **place, number=number, entry=entry, offset=0, length=KEPT)
                self.say("socket", base64.b64decode(told.get("data", "")))
            self.ask(verb="merge", **place, explain=True, number=number)
        self.ask(verb="merge", **place, explain=True)
        self.ask(verb="conflicts", **place)
        self.ask(verb="locks", **place)
        self.ask(verb="who", **place)
        self.ask(verb="purge", **place, explain=True)
        self.ask(verb="sessions", **place, session="s")
        for time in times:
            self.ask(verb="past", **place, time=time)
        for verb in ("past", "revert"):
            self.ask(verb=verb, **place, session="s", explain=True)

    def socket_requests(self):
        self.guessed = []
        for directory in self.directories():
            self.guessed = [directory]
            self.requests({"path": directory})
        for path in self.paths:
            self.guessed = [path]
            self.requests({"path": path})
            for claim in ([], ["immediatelyAvailableMetadataOnly"]):
                self.ask(verb="claim", claim=self.number + 1000, access=[{"path": path, "read": claim}], **{"try": True})
            self.ask(verb="present", presenter=self.number + 1000, path=path, hears=["changed", "moved"])
            self.ask(verb="add", path="open/mine", **{"from": path})
        self.guessed = []
        for document in self.ids:
            self.requests({"document": document})
        for verb in ("status", "statistics", "activity", "identity", "locks", "who", "devices", "members", "volumes"):
            self.ask(verb=verb)
        self.ask(verb="doctor", repair=False)
        self.requests({"path": "open/mine"})


def main(secrets, *times):
    """Prints what each way tells."""
    with open(secrets) as file:
        probe = Probe(json.load(file), times)
    probe.files()
    probe.commands()
    probe.socket_requests()


main(*sys.argv[1:])
