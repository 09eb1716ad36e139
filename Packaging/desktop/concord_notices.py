"""Desktop notices with actions (org.freedesktop.Notifications)."""

from gi.repository import Gio, GLib

NAME = "org.freedesktop.Notifications"
PATH = "/org/freedesktop/Notifications"


class Notice:
    """A notice: what it says, and its buttons, each a label and what it does."""

    def __init__(self, title, text, icon, subjects, buttons):
        self.title, self.text, self.icon = title, text, icon
        # What it is about. A notice that a person has closed comes again only about more.
        self.subjects = frozenset(subjects)
        self.buttons = buttons


class Notices:
    """The notices that the desktop shows, each under a key, of which there is one at a time."""

    def __init__(self, bus):
        self._bus = bus
        # By key: the notice, and its number on the desktop or None before that is known.
        self._shown = {}
        bus.signal_subscribe(
            None, NAME, "ActionInvoked", PATH, None, Gio.DBusSignalFlags.NONE, self._invoked)

    def show(self, key, notice):
        """Shows a notice, or closes the one that has this key if `notice` is None.

        Nothing happens if the notice says nothing new.
        """
        before, number = self._shown.get(key, (None, 0))
        if notice is None:
            if self._shown.pop(key, None) and number:
                self._call("CloseNotification", GLib.Variant("(u)", (number,)))
            return
        is_more = before is None or not notice.subjects <= before.subjects
        self._shown[key] = (notice, number)
        if is_more:
            self._notify(key, notice, number or 0)

    def keys(self):
        return list(self._shown)

    def _notify(self, key, notice, number):
        actions = []
        for index, (label, _) in enumerate(notice.buttons):
            actions += [str(index), label]
        # Clicking the notice itself does what the first button does.
        actions += ["default", notice.buttons[0][0]] if notice.buttons else []
        hints = {"desktop-entry": GLib.Variant("s", "concord-status")}
        self._call(
            "Notify",
            GLib.Variant("(susssasa{sv}i)", (
                "Concord", number, notice.icon, notice.title,
                GLib.markup_escape_text(notice.text), actions, hints, -1)),
            lambda answer: self._numbered(key, notice, answer.unpack()[0]))

    def _numbered(self, key, notice, number):
        if key in self._shown:
            self._shown[key] = (self._shown[key][0], number)
        else:
            # It was settled before the desktop had answered.
            self._call("CloseNotification", GLib.Variant("(u)", (number,)))

    def _call(self, method, arguments, done=None):
        def answered(bus, outcome):
            try:
                answer = bus.call_finish(outcome)
            except GLib.Error:
                # There is no desktop that shows notices; the icon says the same.
                return
            if done:
                done(answer)

        self._bus.call(
            NAME, PATH, NAME, method, arguments, None, Gio.DBusCallFlags.NONE, -1, None, answered)

    def _invoked(self, bus, sender, path, interface, signal, arguments):
        number, action = arguments.unpack()
        for notice, shown in list(self._shown.values()):
            if shown == number:
                index = 0 if action == "default" else int(action)
                notice.buttons[index][1]()
