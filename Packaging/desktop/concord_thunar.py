"""Concord in Thunar: a menu, and a page in a file's properties that says its state.

Thunar's extensions cannot add emblems or columns.
"""

import sys

import gi

gi.require_version("Thunarx", "3.0")
gi.require_version("Gtk", "3.0")
sys.path.append("/usr/local/share/concord/desktop")

from gi.repository import GObject, Gtk, Thunarx  # noqa: E402
import concord_menu  # noqa: E402
from concord_folders import FolderStates  # noqa: E402


class ConcordThunar(
    GObject.GObject, Thunarx.MenuProvider, Thunarx.PropertyPageProvider):
    """Tells Thunar what Concord knows of a file, and what people can do with it."""

    def __init__(self):
        super().__init__()
        self._folders = FolderStates(self._changed)
        # The labels of the pages that are open, with the paths of their files.
        self._labels = {}

    # MARK: The menu

    def get_file_menu_items(self, window, files):
        return self._menu(files)

    def get_folder_menu_items(self, window, folder):
        return self._menu([folder])

    def _menu(self, files):
        paths = [self._path(file) for file in files]
        if None in paths:
            return []
        for path in paths:
            # The answer is there for the next menu, and mostly for this one already.
            self._folders.ask(path, lambda state: None)
        found = concord_menu.entries(
            list(zip(paths, (file.is_directory() for file in files))), self._folders)
        if not found:
            return []
        top = Thunarx.MenuItem(
            name="Concord::menu", label="Concord", tooltip="What Concord can do here", icon="")
        menu = Thunarx.Menu()
        top.set_menu(menu)
        # Thunar shows entries that cannot be chosen like others, so they are left out.
        for entry in (entry for entry, can_be_chosen in found if can_be_chosen):
            item = Thunarx.MenuItem(
                name=f"Concord::{entry.verb}", label=entry.label, tooltip=entry.tip, icon="")
            item.connect("activate", lambda _, entry=entry: concord_menu.start(entry, paths))
            menu.append_item(item)
        return [top]

    # MARK: The page of properties

    def get_property_pages(self, files):
        if len(files) != 1:
            return []
        path = self._path(files[0])
        if path is None or self._folders.root(path) in (None, path):
            return []
        label = Gtk.Label(label="…", xalign=0, yalign=0, margin=12, visible=True)
        self._labels[label] = path
        label.connect("destroy", self._labels.pop)
        self._show(label)
        page = Thunarx.PropertyPage(label="Concord")
        page.add(label)
        return [page]

    def _show(self, label):
        def done(state):
            label.set_text(state.sentence if state else "Concord does not know this file.")

        self._folders.ask(self._labels[label], done)

    def _changed(self, path):
        for label in [label for label, shown in self._labels.items() if shown == path]:
            self._show(label)

    @staticmethod
    def _path(file):
        location = file.get_location()
        return location.get_path() if location else None
