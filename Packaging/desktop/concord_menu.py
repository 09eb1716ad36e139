"""The entries of Concord's menu in file managers, and the program that does what they say."""

from gi.repository import Gio

from concord_files import State

# The program, which is installed beside the file managers' extensions.
PROGRAM = "/usr/local/bin/concord-desktop"


class Entry:
    """An entry: a verb of concord-desktop, its words, and when it can be chosen."""

    def __init__(self, verb, label, tip, for_one=False, states=None):
        self.verb, self.label, self.tip = verb, label, tip
        # Whether it is for exactly one file that is not a folder.
        self.for_one = for_one
        # The states in which it does something; None stands for all. A folder may contain files
        # in any state.
        self._states = states

    def applies(self, states):
        """Whether it does something for files in these states, None being an unknown state."""
        return self._states is None or any(
            state is None or state in self._states for state in states)


ENTRIES = [
    Entry("versions", "_Versions…", "Show, open and restore older versions", for_one=True),
    Entry("resolve", "_Settle Conflict…", "Choose between versions that were saved at once",
          for_one=True, states={State.CONFLICT}),
    Entry("pin", "_Keep on This Device", "Download the contents, and never free their space"),
    Entry("unpin", "_Do Not Keep on This Device", "Allow the contents to be freed"),
    Entry("download", "Down_load Now", "Download the contents to this device",
          states={State.THERE}),
    Entry("evict", "_Free Up Space", "Remove the contents here; the hub has them",
          states={State.SAFE}),
    Entry("members", "S_hare…", "Say who may use this volume"),
]


def entries(files, folders):
    """Returns the entries for files, each with whether it can be chosen now.

    `files` are pairs of a path and whether it is a folder; `folders` is a FolderStates. Returns
    an empty list unless all files are on Concord volumes.
    """
    if not files or any(folders.root(path) is None for path, _ in files):
        return []
    states = [None if is_folder else folders.known(path) for path, is_folder in files]
    # What would change nothing for any of the files is not offered.
    needless = {(True,): "pin", (False,): "unpin"}.get(
        tuple(set(folders.kept([path for path, _ in files]))))
    found = []
    for entry in ENTRIES:
        if entry.for_one and (len(files) > 1 or files[0][1]):
            continue
        if entry.verb == "resolve" and states != [State.CONFLICT] or entry.verb == needless:
            continue
        found.append((entry, entry.applies(states)))
    return found


def start(entry, paths):
    """Starts the program for an entry, which shows in windows of its own what came of it."""
    Gio.Subprocess.new([PROGRAM, entry.verb, "--", *paths], Gio.SubprocessFlags.NONE)
