"""What Concord knows of a file, for file managers and other programs of a desktop.

It reads the extended attributes and the control socket that the article "Desktop" describes. None
of this fetches contents. A call may wait for the daemon, so a program with windows uses
concord_folders, which asks the same questions without waiting.
"""

import enum
import json
import os
import re
import select
import shutil
import socket
import time


class State(enum.Enum):
    """Where the contents of a file are, in the words that people see."""

    SAFE = "safe"
    MOVING = "moving"
    HERE = "only here"
    THERE = "only there"
    CONFLICT = "conflict"
    LOCAL = "local"

    @property
    def emblem(self):
        """The name of the icon that a file manager lays over the file's own; None for no icon."""
        return EMBLEMS.get(self)

    @property
    def text(self):
        """The state as it stands in a column."""
        return TEXTS[self]

    @property
    def sentence(self):
        """The state as a sentence."""
        return SENTENCES[self]


# The first two and the last one are in every icon theme; the package brings the others.
EMBLEMS = {
    State.SAFE: "emblem-default",
    State.MOVING: "emblem-synchronizing",
    State.HERE: "emblem-concord-only-here",
    State.THERE: "emblem-concord-only-there",
    State.CONFLICT: "emblem-important",
}

TEXTS = {
    State.SAFE: "Safe",
    State.MOVING: "Moving",
    State.HERE: "Only here",
    State.THERE: "Only there",
    State.CONFLICT: "Conflict",
    State.LOCAL: "Not kept",
}

SENTENCES = {
    State.SAFE: "The hub has the current contents, and so has this device.",
    State.MOVING: "The current contents are on their way to the hub or to this device.",
    State.HERE: "The current contents are only on this device: the hub does not have them yet.",
    State.THERE: "The contents are only at the hub; they are downloaded when a program reads them.",
    State.CONFLICT: "Several versions were saved at once. Choose which of them becomes current.",
    State.LOCAL: "This file stays on this device, and Concord keeps no versions of it.",
}


class Hub:
    """What the answer to a volume's `status` says about the way to the hub."""

    def __init__(self, volume):
        hub = volume.get("hub", {})
        # If nothing waits any more, what is not at the hub was refused, such as a name that is not
        # UTF-8.
        waits = hub.get("unsent", 0) + hub.get("sending", 0) > 0
        self._takes_some = hub.get("state") == "up" and (waits or hub.get("refused", 0) == 0)
        self._stuck = list(hub.get("problems", {}))

    def takes(self, relative):
        """Whether the hub takes what is at a path from the root, or below it, at this moment."""
        if not self._takes_some or not self._stuck:
            return self._takes_some
        path = printable(relative)
        return not any(stuck == path or stuck.startswith(path + "/") for stuck in self._stuck)


def classify(state, durability, in_conflict, is_taken):
    """Returns the state of a file from the daemon's words about it.

    `state` and `durability` are those of the attributes and of the verb `status`; `is_taken` says
    whether the hub takes the file at this moment.
    """
    if in_conflict:
        return State.CONFLICT
    if state == "dataless":
        return State.THERE
    if state in ("downloading", "downloaded"):
        return State.MOVING
    # The hub may have confirmed the contents of a file whose new name it does not know yet.
    if state == "current" and (durability is None or durability.split()[0] == "hub"):
        return State.SAFE
    return State.MOVING if is_taken else State.HERE


# MARK: Paths


class Mounts:
    """The mount points of this machine's Concord volumes, from the kernel's list.

    Reading the list touches no file system, so it is quick even if a mount does not answer.
    """

    def __init__(self):
        self._list = open("/proc/self/mountinfo", "rb", buffering=0)
        self._changes = select.poll()
        # The kernel reports a change of the list as an exceptional condition.
        self._changes.register(self._list, select.POLLPRI | select.POLLERR)
        self._points = self._read()

    def fileno(self):
        """Returns a descriptor that is in an exceptional condition after a change."""
        return self._list.fileno()

    def points(self):
        """Returns the mount points as paths."""
        if self._changes.poll(0):
            self._points = self._read()
        return self._points

    def root(self, path):
        """Returns the mount point of the volume that the path is on; None if it is on none."""
        found = None
        for point in self.points():
            if (path == point or path.startswith(point + "/")) and len(point) > len(found or ""):
                found = point
        return found

    def _read(self):
        self._list.seek(0)
        content = b""
        while piece := self._list.read(1 << 16):
            content += piece
        # Another file system may be mounted over a volume, so only the last one at a path counts.
        kinds = {}
        for line in content.splitlines():
            before, after = line.split(b" - ", 1)
            kinds[_unescaped(before.split()[4])] = after.split()[0]
        return [os.fsdecode(point) for point, kind in kinds.items() if kind == b"fuse.concord"]


def _unescaped(field):
    """Returns a field of mountinfo with its octal escapes replaced."""
    return re.sub(rb"\\([0-7]{3})", lambda digits: bytes([int(digits[1], 8)]), field)


def relative(path, root):
    """Returns a path from the root; the root's own is empty."""
    return "" if path == root else path[len(root) + 1:]


def wire(path, root):
    """Returns a path as the socket's protocol writes it: from the root, in hex if not UTF-8."""
    path = relative(path, root)
    try:
        path.encode()
        return path
    except UnicodeEncodeError:
        return {"hex": os.fsencode(path).hex()}


def unwired(name):
    """Returns a name or path of an answer as Python writes it."""
    return name if isinstance(name, str) else os.fsdecode(bytes.fromhex(name["hex"]))


def printable(name):
    """Returns a name or path for people, with a mark for each byte that is not UTF-8."""
    return os.fsencode(name).decode(errors="replace")


def root_of(path):
    """Returns the mount point of the volume that the path is on, as the specification says.

    Returns None if the path is not on a Concord volume. It asks the file system.
    """
    root = os.path.realpath(path)
    while root != "/" and not os.path.ismount(root):
        root = os.path.dirname(root)
    return root if attribute(root, "socket") else None


# MARK: Attributes


def attribute(path, name):
    """Returns the text of `user.concord.NAME`; None if the file does not have it."""
    try:
        return os.fsdecode(os.getxattr(path, "user.concord." + name, follow_symlinks=False))
    except OSError:
        return None


def state_of(path):
    """Returns the state of a file; None if it is not on a Concord volume."""
    path = os.path.abspath(path)
    path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    root = root_of(path if os.path.ismount(path) else os.path.dirname(path))
    if root is None:
        return None
    if os.path.isfile(path) and not os.path.islink(path):
        state, durability = attribute(path, "state"), attribute(path, "durability")
        if state is None:
            return State.LOCAL
        in_conflict = attribute(path, "conflicts") not in (None, "0")
    else:
        # Of a directory the daemon knows what is below it, and the kernel lets nobody read
        # attributes of symbolic links.
        try:
            answer = ask(root, "status", path=wire(path, root), local=True)
        except Refusal:
            return State.LOCAL
        state, durability = answer["state"], answer["durability"]
        in_conflict = answer.get("conflicts", 0) > 0
    is_taken = Hub(ask(root, "status")).takes(os.path.relpath(path, root))
    return classify(state, durability, in_conflict, is_taken)


# MARK: The socket


class Refusal(Exception):
    """The daemon's answer that it did not do what was asked; the text is a sentence for people."""

    def __init__(self, error):
        super().__init__(error.get("message", "The daemon gave no reason."))
        self.code = error.get("code", "system")


def ask(root, verb, **fields):
    """Sends one request to the daemon of the volume, and returns the result.

    Raises Refusal if the daemon refuses, and OSError if it does not answer.
    """
    address = attribute(root, "socket")
    if address is None:
        raise FileNotFoundError(f"{root} is not a mounted Concord volume.")
    return ask_at(address, None, verb, **fields)


def ask_at(address, seconds, verb, **fields):
    """Does the same at a socket's path, and raises TimeoutError after so many seconds."""
    end = seconds and time.monotonic() + seconds
    received = b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        connection.connect(address)
        connection.sendall(request(1, verb, fields))
        while piece := connection.recv(1 << 16):
            *lines, received = (received + piece).split(b"\n")
            for answer in map(json.loads, lines):
                if "ok" in answer:
                    return result(answer)
            if end:
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"{address} did not answer within {seconds} seconds.")
                connection.settimeout(left)
    raise ConnectionError(f"{address} ended the connection without an answer.")


def request(number, verb, fields):
    """Returns the line of a request."""
    return json.dumps({"id": number, "verb": verb, **fields}).encode() + b"\n"


def result(answer):
    """Returns the result of an answer, or raises what the daemon says is wrong."""
    if answer["ok"]:
        return answer.get("result", {})
    raise Refusal(answer.get("error", {}))


def fsctl():
    """Returns the path of the program fsctl, or just its name if it is not in PATH."""
    return shutil.which("fsctl") or "fsctl"
