"""The states of all files in the folders that a file manager shows, kept true by events.

One question to the daemon answers for a whole folder, and nothing here waits for the answer.
"""

import collections
import os
import time

from gi.repository import GLib

import concord_files
from concord_files import State
from concord_lines import Conversation
from concord_pins import Pins


class FolderStates:
    """What is known of the folders that were asked about last, on all mounted volumes.

    `changed` is called with the path of a file whose state has become another one.
    """

    def __init__(self, changed):
        self._changed = changed
        self._mounts = concord_files.Mounts()
        self._volumes = {}

    def root(self, path):
        """Returns the mount point of the volume that the path is on; None if it is on none."""
        return self._mounts.root(path)

    def known(self, path):
        """Returns the state if it is known already; None if it is not, or there is none."""
        folder = self._folder(path)
        return folder and folder.state(os.path.basename(path))

    def is_package(self, path):
        """Whether the path is known to be a directory that Concord keeps as one document."""
        folder = self._folder(path)
        return folder is not None and os.path.basename(path) in folder.packages

    def has_hub(self, path):
        """Whether the volume belongs to a hub, as far as that is known."""
        volume = self._volumes.get(self.root(path))
        return volume is None or volume.has_hub

    def ask(self, path, done):
        """Calls `done` with the state of the file, or None, when it is known.

        Returns whether that was at once.
        """
        root = self.root(path)
        if root is None or root == path:
            done(None)
            return True
        if root not in self._volumes:
            self._volumes[root] = VolumeStates(root, self._changed, self._ended)
        return self._volumes[root].ask(path, done)

    def kept(self, paths):
        """Returns for each of the files whether it is to stay here; None if that is unknown."""
        roots = {self.root(path) for path in paths}
        volume = self._volumes.get(roots.pop()) if len(roots) == 1 else None
        return volume.pins.kept(paths) if volume else [None for _ in paths]

    def _folder(self, path):
        volume = self._volumes.get(self.root(path))
        return volume and volume.folders.get(os.path.dirname(path))

    def _ended(self, volume):
        if self._volumes.get(volume.root) is volume:
            del self._volumes[volume.root]


class Folder:
    """The states of the files in one folder."""

    def __init__(self):
        # None until the first answer.
        self.states = None
        # The names of the packages in it.
        self.packages = set()
        self.waiting = []
        # The daemon refuses questions about folders like .versions, which have no documents.
        self.has_documents = True

    def state(self, name):
        if self.states is None or not self.has_documents:
            return None
        return self.states.get(name, State.LOCAL)

    @property
    def is_settled(self):
        """Whether no file in it awaits the hub or a decision of which no event tells."""
        return not any(
            state in (State.MOVING, State.HERE, State.CONFLICT) for state in self.states.values())


class VolumeStates:
    """The states of the folders of one volume that were asked about last."""

    FOLDERS_MAX = 50
    # Between two rounds of questions there is at least this time, and five times what the last
    # round took, so that a volume on which much happens has other things to do than to answer.
    PAUSE_MILLISECONDS = 200

    def __init__(self, root, changed, ended):
        self.root = root
        self.folders = collections.OrderedDict()
        self._changed, self._ended = changed, ended
        self._hub = concord_files.Hub({})
        self.has_hub = True
        self._outdated = set()
        self._unanswered = 0
        self._pause = 0
        self._began = time.monotonic()
        self._round_milliseconds = 0
        self._conversation = Conversation(root, self._end, self._heard)
        self.pins = Pins(self._conversation)
        self._conversation.ask("watch", path="", contents=True)
        self._conversation.ask("status", self._volume_answered)

    def ask(self, path, done):
        """Calls `done` when the state is known; returns whether that was at once."""
        directory, name = os.path.split(path)
        folder = self.folders.get(directory)
        if folder is None:
            folder = self.folders[directory] = Folder()
            if self._unanswered == 0:
                self._began = time.monotonic()
            self._ask_folder(directory)
            if len(self.folders) > VolumeStates.FOLDERS_MAX:
                self._forget()
        self.folders.move_to_end(directory)
        if folder.states is None:
            folder.waiting.append(lambda: done(folder.state(name)))
            return False
        done(folder.state(name))
        return True

    def _forget(self):
        for directory, folder in self.folders.items():
            if folder.states is not None:
                del self.folders[directory]
                return

    # MARK: Questions

    def _ask_folder(self, directory):
        self._unanswered += 1
        self._conversation.ask(
            "status", lambda answer: self._folder_answered(directory, answer),
            path=concord_files.wire(directory, self.root), entries=True)

    def _folder_answered(self, directory, answer):
        folder = self.folders.get(directory)
        if folder:
            self._take(directory, folder, answer)
        self._unanswered -= 1
        if self._unanswered == 0:
            self._round_milliseconds = int((time.monotonic() - self._began) * 1000)
            self._plan()

    def _take(self, directory, folder, answer):
        before, states, packages = folder.states, {}, set()
        folder.has_documents = answer["ok"]
        above = "" if directory == self.root else directory[len(self.root) + 1:] + "/"
        for group in answer.get("result", {}).get("groups", []):
            words = group["state"], group["durability"], group["conflicts"]
            taken = concord_files.classify(*words, is_taken=True)
            refused = concord_files.classify(*words, is_taken=False)
            names = [concord_files.unwired(name) for name in group["names"]]
            if group["kind"] == "package":
                packages.update(names)
            for name in names:
                is_taken = taken == refused or self._hub.takes(above + name)
                states[name] = taken if is_taken else refused
        folder.states, folder.packages = states, packages
        waiting, folder.waiting = folder.waiting, []
        for tell in waiting:
            tell()
        if before is None:
            return
        for name in before.keys() | states.keys():
            if before.get(name) != states.get(name):
                self._changed(os.path.join(directory, name))

    def _volume_answered(self, answer):
        if not answer["ok"]:
            return
        self._hub = concord_files.Hub(answer["result"])
        self.has_hub = "hub" in answer["result"]
        self._outdate(
            directory for directory, folder in self.folders.items()
            if folder.states is not None and not folder.is_settled)

    # MARK: Events

    def _heard(self, event):
        # The daemon tells in this way that transfers have begun or ended, or that the hub has
        # confirmed something. What that was is not said.
        if event["kind"] == "contents" and event["path"] == "":
            self._outdated.add(None)
            return self._plan()
        for key in ("path", "to"):
            if key in event:
                self._outdate_above(concord_files.unwired(event[key]))

    def _outdate_above(self, relative):
        # A folder shows the worst state below it, so all folders above are concerned.
        path = os.path.join(self.root, relative)
        above = []
        while path != self.root:
            path = os.path.dirname(path)
            above.append(path)
        self._outdate(above)

    def _outdate(self, directories):
        self._outdated.update(
            directory for directory in directories if directory in self.folders)
        self._plan()

    def _plan(self):
        if self._outdated and not self._pause and self._unanswered == 0:
            pause = max(VolumeStates.PAUSE_MILLISECONDS, 5 * self._round_milliseconds)
            self._pause = GLib.timeout_add(pause, self._ask_outdated)

    def _ask_outdated(self):
        self._pause = 0
        self._began = time.monotonic()
        outdated, self._outdated = self._outdated, set()
        if None in outdated:
            outdated.remove(None)
            self._conversation.ask("status", self._volume_answered)
        for directory in outdated:
            if directory in self.folders:
                self._ask_folder(directory)
        return GLib.SOURCE_REMOVE

    def _end(self, _):
        if self._pause:
            GLib.source_remove(self._pause)
        self._ended(self)
        folders, self.folders = self.folders, collections.OrderedDict()
        for folder in folders.values():
            folder.has_documents = False
            for tell in folder.waiting:
                tell()
        # Emblems of a volume that is not there any more say nothing.
        for directory, folder in folders.items():
            for name in folder.states or {}:
                self._changed(os.path.join(directory, name))
