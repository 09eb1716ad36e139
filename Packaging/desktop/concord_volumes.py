"""The state of each mounted volume, kept true by events, for the status icon and notices."""

import os

from gi.repository import GLib

import concord_files
from concord_lines import Conversation


class VolumeState:
    """What a person should know about one volume, from the answers of its daemon."""

    def __init__(self, root, volume, conflicts):
        self.root = root
        # Several volumes may have one name, so people see the mount point, as a shell writes it.
        home = os.path.expanduser("~")
        self.name = concord_files.printable(
            "~" + root[len(home):] if root.startswith(home + "/") else root)
        self.hub = volume.get("hub", {})
        # The paths of the documents in conflict, from the root.
        self.conflicts = conflicts
        self.is_paused = self.hub.get("state") == "offline"
        # The sentences about what a person must do, each with what it is about.
        self.problems = dict(self.hub.get("problems", {}))
        self.problems.update((sentence, sentence) for sentence in volume["problems"])
        if self.hub.get("state") in ("signed out", "removed"):
            self.problems[self.hub["state"]] = self.hub["reason"]
        self.held = self.hub.get("held", 0)
        # They stay here for ever, such as files whose names are not UTF-8.
        self.refused = self.hub.get("refused", 0)
        self.unsafe = self.hub.get("unsent", 0) + self.hub.get("sending", 0)

    @property
    def needs_person(self):
        return bool(self.conflicts or self.problems or self.held)

    @property
    def summary(self):
        """What is not safe, in a few words."""
        if not self.hub:
            return "no hub: everything is only on this device"
        if self.unsafe == 0 and self.refused == 0:
            words = "everything is safe"
        elif self.unsafe == 0:
            words = f"the hub does not take {self.refused} of the files"
        elif self.unsafe == 1:
            words = "1 change is not safe yet"
        else:
            words = f"{self.unsafe} changes are not safe yet"
        if self.is_paused:
            return f"paused, {words}"
        return words if self.hub["state"] == "up" else f"no connection, {words}"

    @property
    def sentences(self):
        """What a person should look at, a sentence for each thing."""
        found = []
        if self.hub.get("state") == "down":
            found.append(self.hub["reason"])
        if self.held:
            found.append(f"{self.held} deletions are held back.")
        found += [
            reason if reason == subject else f"{subject}: {reason}"
            for subject, reason in self.problems.items()]
        return [sentence for sentence in found if sentence]


class Volumes:
    """All mounted volumes. `changed` is called when the state of one of them has changed."""

    def __init__(self, changed):
        self._changed = changed
        self._mounts = concord_files.Mounts()
        self._watches = {}
        # The kernel reports a change of the list of mounts as an exceptional condition.
        GLib.io_add_watch(
            self._mounts.fileno(), GLib.PRIORITY_DEFAULT, GLib.IO_PRI | GLib.IO_ERR,
            self._mounts_changed)
        self._mounts_changed()

    @property
    def states(self):
        """The states of the volumes whose daemons have answered, by the order of their names."""
        found = [watch.state for watch in self._watches.values() if watch.state]
        return sorted(found, key=lambda state: state.root)

    def root(self, path):
        return self._mounts.root(path)

    def ask(self, root, verb, done=None, **fields):
        if root in self._watches:
            self._watches[root].conversation.ask(verb, done, **fields)

    def _mounts_changed(self, *_):
        points = self._mounts.points()
        for root in points:
            if root not in self._watches:
                self._watches[root] = VolumeWatch(root, self._changed, self._ended)
        for root in set(self._watches) - set(points):
            self._watches.pop(root).close()
            self._changed()
        return GLib.SOURCE_CONTINUE

    def _ended(self, watch):
        if self._watches.get(watch.root) is watch:
            del self._watches[watch.root]
            self._changed()
        # A daemon that has started again has a new connection; one that has gone, no mount.
        GLib.timeout_add_seconds(2, lambda: self._mounts_changed() and GLib.SOURCE_REMOVE)


class VolumeWatch:
    """Asks the daemon of one volume about its state, whenever it may have changed."""

    PAUSE_MILLISECONDS = 300
    # No event tells that a hub has stopped answering.
    SECONDS_MAX = 10

    def __init__(self, root, changed, ended):
        self.root = root
        self.state = None
        self._changed, self._ended = changed, ended
        self._volume = None
        self._pause = 0
        self.conversation = Conversation(root, self._end, lambda _: self._plan())
        self.conversation.ask("watch", path="", contents=True)
        self._ask()
        self._clock = GLib.timeout_add_seconds(VolumeWatch.SECONDS_MAX, self._ask)

    def close(self):
        self._stop()
        self.conversation.close()

    def _plan(self):
        if not self._pause:
            self._pause = GLib.timeout_add(VolumeWatch.PAUSE_MILLISECONDS, self._ask_again)

    def _ask_again(self):
        self._pause = 0
        self._ask()
        return GLib.SOURCE_REMOVE

    def _ask(self):
        self.conversation.ask("status", self._answered)
        return GLib.SOURCE_CONTINUE

    def _answered(self, answer):
        if not answer["ok"]:
            return
        self._volume = answer["result"]
        # Conflicts that may still be merged without a person are not reported to one.
        if self._volume["conflicts"] > self._volume["unexaminedConflicts"]:
            self.conversation.ask("conflicts", self._conflicts_answered, path="")
        else:
            self._take([])

    def _conflicts_answered(self, answer):
        documents = answer.get("result", {}).get("documents", [])
        self._take(sorted(concord_files.unwired(document["path"]) for document in documents))

    def _take(self, conflicts):
        state = VolumeState(self.root, self._volume, conflicts)
        if self.state is None or vars(state) != vars(self.state):
            self.state = state
            self._changed()

    def _stop(self):
        for source in (self._pause, self._clock):
            if source:
                GLib.source_remove(source)
        self._pause = self._clock = 0

    def _end(self, _):
        self._stop()
        self._ended(self)
