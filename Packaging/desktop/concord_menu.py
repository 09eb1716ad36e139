"""The entries of Concord's menu in file managers, and the program that does what they say."""

from gi.repository import Gio

from concord_files import State

# The program, which is installed beside the file managers' extensions.
PROGRAM = "/usr/local/bin/concord-desktop"


class Entry:
    """An entry: a verb of concord-desktop, its words, and when it can be chosen."""

    def __init__(self, verb, label, tip, for_one=False, states=None, needs_hub=False):
        self.verb, self.label, self.tip = verb, label, tip
        # Whether it is for exactly one file or package.
        self.for_one = for_one
        # Whether it is only for volumes that belong to a hub.
        self.needs_hub = needs_hub
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
    Entry("link", "Share a L_ink…", "Let anybody who has a link open this in a browser",
          for_one=True, states=set(State) - {State.LOCAL}, needs_hub=True),
    Entry("members", "S_hare…", "Say who may use this volume"),
]


def entries(files, folders):
    """Returns the entries for files, each with whether it can be chosen now.

    `files` are pairs of a path and whether it is a folder; `folders` is a FolderStates. Returns
    an empty list unless all files are on Concord volumes.
    """
    if not files or any(folders.root(path) is None for path, _ in files):
        return []
    # A package is a folder for file managers, and a document for Concord.
    files = [(path, is_folder and not folders.is_package(path)) for path, is_folder in files]
    states = [None if is_folder else folders.known(path) for path, is_folder in files]
    # What would change nothing for any of the files is not offered.
    needless = {(True,): "pin", (False,): "unpin"}.get(
        tuple(set(folders.kept([path for path, _ in files]))))
    found = []
    for entry in ENTRIES:
        if entry.for_one and (len(files) > 1 or files[0][1]):
            continue
        if entry.needs_hub and not folders.has_hub(files[0][0]):
            continue
        if entry.verb == "resolve" and states != [State.CONFLICT] or entry.verb == needless:
            continue
        found.append((entry, entry.applies(states)))
    return found


def start(entry, paths):
    """Starts the program for an entry, which shows in windows of its own what came of it."""
    Gio.Subprocess.new([PROGRAM, entry.verb, "--", *paths], Gio.SubprocessFlags.NONE)
