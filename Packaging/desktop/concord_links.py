"""The window of links with which anybody opens a document in a browser, without an account."""

from gi.repository import Gdk, Gtk

from concord_windows import VolumeWindow, moment, say_error


class Links(VolumeWindow):
    """The links to a document, and a form that makes one."""

    TITLE = "Links to {}"
    WIDTH = 720

    # What people choose, as fsctl knows it. They may also type a time.
    ENDS = {"never": "", "after a day": "1d", "after a week": "7d", "after 30 days": "30d"}

    def build(self):
        self.table("Made", "By", "Visitors", "Password", "Ends", "Used", "Link")
        self._form = Gtk.Box(spacing=6)
        self._edits = Gtk.CheckButton(label="May _edit", use_underline=True)
        self._ends = Gtk.ComboBoxText.new_with_entry()
        for words in Links.ENDS:
            self._ends.append_text(words)
        self._ends.set_active(0)
        self._ends.set_tooltip_text("Or a time, such as 12d or 2030-12-24 18:00")
        # fsctl reads one line.
        self._password = Gtk.Entry(
            placeholder_text="None", visibility=False, hexpand=True, truncate_multiline=True,
            input_purpose=Gtk.InputPurpose.PASSWORD)
        self._form.add(self._edits)
        for words, field in (("E_nds:", self._ends), ("_Password:", self._password)):
            self._form.add(
                Gtk.Label(label=words, use_underline=True, mnemonic_widget=field, margin_start=12))
            self._form.add(field)
        self.box.pack_start(self._form, False, False, 0)
        self._told = Gtk.Label(xalign=0, wrap=True, max_width_chars=80, no_show_all=True)
        self._address = Gtk.Entry(editable=False, no_show_all=True)
        self.box.pack_start(self._told, False, False, 0)
        self.box.pack_start(self._address, False, False, 0)
        self.buttons(("_Revoke", self._revoke), ("_Make Link", self._make))

    # MARK: The list

    def refresh(self):
        self.conversation.ask("status", self._known, path=self.wire, local=True)

    def _known(self, answer):
        # Dolphin's menu is the same for documents and folders.
        if self.succeeded(answer) and answer["result"]["kind"] not in ("file", "package"):
            self.say("Only files and packages have links. To share all, choose Share…")
        elif answer["ok"]:
            self.conversation.ask("links", self._answered, path=self.wire)

    def _answered(self, answer):
        if not self.succeeded(answer):
            return
        links = answer["result"]["links"]
        self.say(
            "Anybody who has one of these links opens the document in a browser." if links
            else "There are no links to this document that you may see.")
        self.show(link_row(link) for link in links)

    def _revoke(self):
        if self.selected:
            self.conversation.ask("link", self._revoked, change="revoke", link=self.selected)

    def _revoked(self, answer):
        if not answer["ok"]:
            say_error(self.window, "The link was not revoked", answer["error"]["message"])
        else:
            # It may be the new one.
            self._hide_address()
        self.refresh()

    # MARK: A new link

    def _make(self):
        if not self._form.get_sensitive():
            return
        # fsctl waits until the hub has the document, which may take a while.
        self._form.set_sensitive(False)
        self._hide_address()
        options = ["--edit"] if self._edits.get_active() else []
        ends = self._ends.get_active_text().strip()
        if ends := Links.ENDS.get(ends, ends):
            options.append(f"--until={ends}")
        # Every user of the machine can see a command line, so the password is not on it.
        password = self._password.get_text()
        if password:
            options.append("--password")
        self.fsctl("share", *options, self.path, typed=password + "\n", done=self._made)

    def _hide_address(self):
        self._told.hide()
        self._address.hide()

    def _made(self, output):
        self._form.set_sensitive(True)
        if output is None:
            return
        address = output.strip()
        self._password.set_text("")
        Gtk.Clipboard.get(Gdk.SELECTION_CLIPBOARD).set_text(address, -1)
        self._told.set_text(
            "The new link is in the clipboard. Its address is shown only now, and the hub does "
            "not keep it.")
        self._told.show()
        self._address.set_text(address)
        self._address.show()
        self._address.grab_focus()


def link_row(link):
    """Returns the fields of a link that people see, and its id."""
    ends = "ended" if link["ended"] else moment(link["ends"]) if "ends" in link else "never"
    return [
        moment(link["made"]), link["maker"], "may edit" if link["edits"] else "may read",
        "yes" if link["password"] else "no", ends,
        moment(link["used"]) if "used" in link else "never", link["id"][:8], link["id"],
    ]
