"""The windows of concord-desktop: progress and errors, versions, conflicts, members, status."""

import os

from gi.repository import Gio, GLib, Gtk

import concord_files
from concord_files import printable
from concord_lines import Conversation


def say_error(parent, text, more):
    """Shows an error and waits until the person has read it."""
    dialog = Gtk.MessageDialog(
        transient_for=parent, modal=True, message_type=Gtk.MessageType.ERROR,
        buttons=Gtk.ButtonsType.CLOSE, text=text, secondary_text=more, title="Concord")
    dialog.run()
    dialog.destroy()


def moment(nanoseconds):
    """Returns a time of the protocol in words of the person's language."""
    return GLib.DateTime.new_from_unix_local(nanoseconds // 10**9).format("%x %X")


class Errand:
    """A verb that is done for some files, with a window only if it takes long or fails."""

    DOING = {
        "pin": "Keeping on this device", "unpin": "No longer keeping on this device",
        "download": "Downloading", "evict": "Freeing space",
    }

    def __init__(self, verb, paths, mounts):
        self.status = 0
        self._verb, self._paths = verb, paths
        self._mounts = mounts
        self._failures = []
        self._unanswered = len(paths)
        self._conversations = {}

    def start(self):
        self._window = Gtk.Window(title=Errand.DOING[self._verb], default_width=360)
        self._window.connect("delete-event", lambda *_: Gtk.main_quit())
        self._bar = Gtk.ProgressBar(show_text=True, margin=18, text="…")
        self._window.add(self._bar)
        # What is done at once needs no window.
        self._pause = GLib.timeout_add(700, self._show)
        for path in self._paths:
            root = self._mounts.root(path)
            if root not in self._conversations:
                self._conversations[root] = Conversation(root, self._lost)
            self._conversations[root].ask(
                self._verb, self._answered, self._progressed, path=concord_files.wire(path, root))

    def _show(self):
        self._pause = 0
        self._window.show_all()
        return GLib.SOURCE_REMOVE

    def _progressed(self, fraction, text):
        self._bar.set_fraction(fraction or 0)
        self._bar.set_text(text or "…")

    def _answered(self, answer):
        if not answer["ok"]:
            self._failures.append(answer["error"]["message"])
        # What could not be evicted is no error for the daemon, but people asked for it.
        for kept in answer.get("result", {}).get("kept", []):
            self._failures.append(kept["reason"])
        self._unanswered -= 1
        if self._unanswered == 0:
            self._finish()

    def _lost(self, conversation):
        self._failures.append(f"{printable(conversation.root)} does not answer.")
        self._finish()

    def _finish(self):
        if self._pause:
            GLib.source_remove(self._pause)
            self._pause = 0
        self._window.destroy()
        if self._failures:
            self.status = 1
            shown = self._failures[:10]
            if len(self._failures) > 10:
                shown.append(f"… and {len(self._failures) - 10} more")
            say_error(None, "Not everything could be done", "\n".join(shown))
        Gtk.main_quit()


class VolumeWindow:
    """A window that shows an answer of the daemon, and stays true while it is open."""

    TITLE = "Concord"
    WIDTH, HEIGHT = 640, 360

    def __init__(self, verb, paths, mounts):
        self.status = 0
        self.path = paths[0]
        self.root = mounts.root(self.path)
        self.wire = concord_files.wire(self.path, self.root)

    def start(self):
        self.window = Gtk.Window(
            title=self.TITLE.format(printable(os.path.basename(self.path))),
            default_width=self.WIDTH, default_height=self.HEIGHT)
        self.window.connect("destroy", lambda _: Gtk.main_quit())
        self.box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=8, margin=12)
        self.window.add(self.box)
        self.label = Gtk.Label(xalign=0, wrap=True, max_width_chars=80, no_show_all=True)
        self.box.pack_start(self.label, False, False, 0)
        self.build()
        self.conversation = Conversation(self.root, self._lost, lambda _: self.refresh())
        self.conversation.ask("watch", path=self.wire, contents=True)
        self.refresh()
        self.window.show_all()

    def build(self):
        """Makes what is in the window."""

    def refresh(self):
        """Asks the daemon for what the window shows."""

    def say(self, words):
        """Shows words above the list."""
        self.label.set_text(words)
        self.label.set_visible(bool(words))

    def table(self, *titles):
        """Adds a list with these columns; the last field of its rows is not shown."""
        self.rows = Gtk.ListStore(*[str] * len(titles), object)
        self.view = Gtk.TreeView(model=self.rows)
        for index, title in enumerate(titles):
            column = Gtk.TreeViewColumn(title, Gtk.CellRendererText(), text=index)
            column.set_resizable(True)
            self.view.append_column(column)
        scroller = Gtk.ScrolledWindow(shadow_type=Gtk.ShadowType.IN)
        scroller.add(self.view)
        self.box.pack_start(scroller, True, True, 0)

    def buttons(self, *labels):
        """Adds a row of buttons, each a label and what it does."""
        row = Gtk.ButtonBox(layout_style=Gtk.ButtonBoxStyle.END, spacing=6)
        for label, action in labels:
            button = Gtk.Button(label=label, use_underline=True)
            button.connect("clicked", lambda _, action=action: action())
            row.add(button)
        self.box.pack_end(row, False, False, 0)

    def show(self, rows):
        """Shows these rows and keeps what was selected; at first that is the first row."""
        selected = self.view.get_selection().get_selected()[1]
        at = self.rows.get_path(selected)[0] if selected else 0
        self.rows.clear()
        for row in rows:
            self.rows.append(row)
        if len(self.rows):
            self.view.get_selection().select_path(min(at, len(self.rows) - 1))

    @property
    def selected(self):
        """The last field of the selected row; None if no row is selected."""
        at = self.view.get_selection().get_selected()[1]
        return at and self.rows[at][-1]

    def fsctl(self, *arguments, typed="", done=None):
        """Runs fsctl, and shows what it says if it fails; refreshes the window.

        `typed` is its standard input. `done` gets its output, which is None if it fails.
        """
        pipes = (
            Gio.SubprocessFlags.STDIN_PIPE | Gio.SubprocessFlags.STDOUT_PIPE
            | Gio.SubprocessFlags.STDERR_PIPE)

        def ran(process, outcome):
            _, output, said = process.communicate_utf8_finish(outcome)
            is_done = process.get_successful()
            if not is_done:
                say_error(self.window, "This could not be done", said.strip())
            if done:
                done(output if is_done else None)
            self.refresh()

        Gio.Subprocess.new([concord_files.fsctl(), *arguments], pipes).communicate_utf8_async(
            typed, None, ran)

    def succeeded(self, answer):
        """Whether the daemon did what was asked; otherwise the window says why it did not."""
        if not answer["ok"]:
            self.say(answer["error"]["message"])
        return answer["ok"]

    def _lost(self, _):
        say_error(
            self.window, "The volume does not answer", f"{printable(self.root)} is not mounted.")
        self.status = 1
        self.window.destroy()


class Versions(VolumeWindow):
    """The versions of a document, the newest first."""

    TITLE = "Versions of {}"

    def build(self):
        self.table("Saved", "Program", "By", "On", "Size", "Version")
        self.view.connect("row-activated", lambda *_: self._open())
        self.buttons(
            ("_Open", self._open), ("Save _Copy…", self._copy), ("_Restore", self._restore))

    def refresh(self):
        self.conversation.ask("versions", self._answered, path=self.wire)

    def _answered(self, answer):
        if self.succeeded(answer):
            self.show(version_row(version) for version in reversed(answer["result"]["versions"]))

    def _open(self):
        if self.selected:
            open_version(self.window, self.path, self.selected)

    def _restore(self):
        if self.selected:
            self.fsctl("restore", self.path, str(self.selected["number"]))

    def _copy(self):
        version = self.selected
        if not version:
            return
        dialog = Gtk.FileChooserNative(
            title="Save a Copy", transient_for=self.window, action=Gtk.FileChooserAction.SAVE)
        dialog.set_current_folder(os.path.dirname(self.path))
        dialog.set_current_name(concord_files.unwired(version["fileName"]))
        if dialog.run() == Gtk.ResponseType.ACCEPT:
            self.fsctl(
                "restore", "--as", dialog.get_filename(), self.path, str(version["number"]))
        dialog.destroy()


KINDS = {"current": "current", "conflict": "in conflict", "history": ""}


def version_row(version):
    """Returns the fields of a version that people see, and the version itself."""
    return [
        moment(version["saved"]), version.get("program", ""), version.get("person", ""),
        version.get("deviceName", ""), GLib.format_size(version["size"]),
        " ".join(filter(None, [
            str(version["number"]), KINDS.get(version["kind"]), version.get("label")])),
        version,
    ]


def open_version(window, path, version):
    """Opens a version, which may be read only, in the program for its type."""
    folder, name = os.path.split(path)
    if version["kind"] != "current":
        name = os.path.join(".versions", name, concord_files.unwired(version["fileName"]))
    try:
        Gio.AppInfo.launch_default_for_uri(
            Gio.File.new_for_path(os.path.join(folder, name)).get_uri(), None)
    except GLib.Error as error:
        say_error(window, "The version could not be opened", error.message)


class Conflict(VolumeWindow):
    """The versions of a document that are in conflict, and the ways to settle it."""

    TITLE = "Conflict of {}"

    def build(self):
        self.table("Saved", "Program", "By", "On", "Size", "Version")
        self.view.connect("row-activated", lambda *_: self._open())
        self.buttons(
            ("_Open", self._open), ("_Merge", lambda: self.fsctl("resolve", "--merge", self.path)),
            ("Keep _All", lambda: self.fsctl("resolve", "--keep", "both", self.path)),
            ("_Keep Selected", self._keep))

    def refresh(self):
        self.conversation.ask("conflicts", self._answered, path=self.wire)

    def _answered(self, answer):
        if not self.succeeded(answer):
            return
        documents = answer["result"]["documents"]
        if not documents:
            self.say("No versions of this document are in conflict.")
            return self.show([])
        self.say(
            "These versions were saved at once, and all are kept. The one that you keep becomes "
            "current on all devices; the others stay in the history.")
        versions = [documents[0]["current"]]
        versions += [other["version"] for other in documents[0]["conflicts"]]
        self.show(version_row(version) for version in versions)

    def _open(self):
        if self.selected:
            open_version(self.window, self.path, self.selected)

    def _keep(self):
        version = self.selected
        if version:
            kept = "current" if version["kind"] == "current" else str(version["number"])
            self.fsctl("resolve", "--keep", kept, self.path)


class Members(VolumeWindow):
    """Who may use the volume."""

    TITLE = "Share the Volume"

    def build(self):
        self.table("Member", "Role", "Since")
        row = Gtk.Box(spacing=6)
        self.name = Gtk.Entry(placeholder_text="Name of a user of the hub", hexpand=True)
        self.name.connect("activate", lambda _: self._add())
        self.role = Gtk.ComboBoxText()
        self.role.append("editor", "may change everything")
        self.role.append("reader", "may only read")
        self.role.set_active_id("editor")
        row.add(self.name)
        row.add(self.role)
        self.box.pack_start(row, False, False, 0)
        self.buttons(("_Remove", self._remove), ("_Add", self._add))

    def refresh(self):
        self.conversation.ask("members", self._answered)

    def _answered(self, answer):
        if not self.succeeded(answer):
            return
        self.say("All members use the whole volume.")
        self.show(
            [member["user"] + (" (you)" if member.get("here") else ""), member["role"],
             moment(member["since"]), member["user"]]
            for member in answer["result"]["members"])

    def _add(self):
        user = self.name.get_text().strip()
        if user:
            self._change(change="add", user=user, role=self.role.get_active_id())
            self.name.set_text("")

    def _remove(self):
        if self.selected:
            self._change(change="remove", user=self.selected)

    def _change(self, **fields):
        self.conversation.ask("member", self._changed, **fields)

    def _changed(self, answer):
        if answer["ok"]:
            return self._answered(answer)
        say_error(self.window, "The members were not changed", answer["error"]["message"])


class Status(VolumeWindow):
    """What is not safe on a volume, and why."""

    TITLE = "What Is Not Safe"

    def build(self):
        self.table("What", "Why")
        self.buttons(("_Try Again", self._again))

    def refresh(self):
        self.conversation.ask("status", self._answered)

    def _answered(self, answer):
        if not self.succeeded(answer):
            return
        volume = answer["result"]
        hub = volume.get("hub", {})
        waiting = [
            [printable(concord_files.unwired(item["path"])), item["reason"], None]
            for item in hub.get("waiting", [])]
        problems = [[path, reason, None] for path, reason in hub.get("problems", {}).items()]
        problems += [["", sentence, None] for sentence in volume["problems"]]
        more = hub.get("unsent", 0) + hub.get("sending", 0) - len(waiting)
        if more > 0:
            waiting.append([f"{more} more changes", "have not been sent", None])
        self.say(
            hub.get("reason") or (
                "Some changes are not at the hub yet." if waiting else "Everything is safe."))
        self.show(problems + waiting)

    def _again(self):
        # Going online makes the daemon connect anew and send what waits.
        self.conversation.ask("offline")
        self.conversation.ask("online", lambda _: self.refresh())
