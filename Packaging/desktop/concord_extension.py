"""Concord in Nautilus, Nemo and Caja: emblems, a column and a menu.

One file for all three, which is installed in the directory of each one's extensions. They differ
in the name of the library and in what they hand to a menu's provider.
"""

import pathlib
import sys

import gi

HOST = pathlib.Path(__file__).parent.parent.name.split("-")[0].capitalize()
gi.require_version(HOST, {"Nautilus": "4.0", "Nemo": "3.0", "Caja": "2.0"}[HOST])
sys.path.append("/usr/local/share/concord/desktop")

from gi.repository import GObject  # noqa: E402
import concord_menu  # noqa: E402
from concord_folders import FolderStates  # noqa: E402

Host = getattr(__import__("gi.repository", fromlist=[HOST]), HOST)


class ConcordExtension(
    GObject.GObject, Host.InfoProvider, Host.ColumnProvider, Host.MenuProvider):
    """Tells the file manager what Concord knows of files, and what people can do with them."""

    # The file managers shown here are asked about are remembered by their path, weakly.
    def __init__(self):
        super().__init__()
        self._folders = FolderStates(self._changed)
        self._shown = {}

    # MARK: Emblems and the column

    def get_columns(self):
        return [
            Host.Column(
                name="ConcordColumn::state", attribute="concord_state", label="Concord",
                description="Whether the hub has the file, and whether this device has it"),
        ]

    def update_file_info_full(self, provider, handle, closure, file):
        path = self._path(file)
        if path is None or self._folders.root(path) is None:
            return Host.OperationResult.COMPLETE
        is_answered = False

        def done(state):
            if state is not None:
                if state.emblem:
                    file.add_emblem(state.emblem)
                file.add_string_attribute("concord_state", state.text)
            if is_answered:
                return
            Host.info_provider_update_complete_invoke(
                closure, provider, handle, Host.OperationResult.COMPLETE)

        self._shown[path] = file.weak_ref()
        self._forget()
        is_answered = True
        if self._folders.ask(path, done):
            return Host.OperationResult.COMPLETE
        is_answered = False
        return Host.OperationResult.IN_PROGRESS

    def cancel_update(self, provider, handle):
        """An answer that the file manager does not wait for any more does no harm."""

    def _changed(self, path):
        shown = self._shown.get(path)
        file = shown and shown()
        if file is not None:
            file.invalidate_extension_info()

    def _forget(self):
        """Forgets files that the file manager has forgotten, whenever there are many."""
        if len(self._shown) % 1000 == 0:
            self._shown = {path: file for path, file in self._shown.items() if file()}

    @staticmethod
    def _path(file):
        location = file.get_location()
        return location.get_path() if location else None

    # MARK: The menu

    def get_file_items(self, *arguments):
        # Nautilus hands over the files, Nemo and Caja a window before them.
        return self._menu("files", arguments[-1])

    def get_background_items(self, *arguments):
        return self._menu("folder", [arguments[-1]])

    # Nautilus makes both menus at once, and does for an entry of the one what an entry of the same
    # name and place in the other says. So their names differ.
    def _menu(self, kind, files):
        paths = [self._path(file) for file in files]
        if None in paths:
            return []
        found = concord_menu.entries(
            list(zip(paths, (file.is_directory() for file in files))), self._folders)
        if not found:
            return []
        top = Host.MenuItem(
            name=f"Concord::{kind}", label="Concord", tip="What Concord can do here")
        menu = Host.Menu()
        top.set_submenu(menu)
        for entry, can_be_chosen in found:
            item = Host.MenuItem(
                name=f"Concord::{kind}::{entry.verb}", label=entry.label, tip=entry.tip,
                sensitive=can_be_chosen)
            item.connect("activate", lambda _, entry=entry: concord_menu.start(entry, paths))
            menu.append_item(item)
        return [top]
