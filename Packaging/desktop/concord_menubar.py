"""A menu on the session bus (com.canonical.dbusmenu), as the status icon's host shows it."""

from gi.repository import GLib

from concord_bus import BusObject


class Item:
    """An entry of the menu: its words, what choosing it does, or the entries below it."""

    def __init__(self, label="", action=None, below=()):
        self.label, self.action, self.below = label, action, list(below)

    @property
    def is_separator(self):
        return not self.label


class MenuBar(BusObject):
    """The menu that `show` was called with last."""

    INTERFACE = """
    <interface name="com.canonical.dbusmenu">
      <property name="Version" type="u" access="read"/>
      <property name="TextDirection" type="s" access="read"/>
      <property name="Status" type="s" access="read"/>
      <property name="IconThemePath" type="as" access="read"/>
      <method name="GetLayout">
        <arg type="i" direction="in"/> <arg type="i" direction="in"/>
        <arg type="as" direction="in"/>
        <arg type="u" direction="out"/> <arg type="(ia{sv}av)" direction="out"/>
      </method>
      <method name="GetGroupProperties">
        <arg type="ai" direction="in"/> <arg type="as" direction="in"/>
        <arg type="a(ia{sv})" direction="out"/>
      </method>
      <method name="GetProperty">
        <arg type="i" direction="in"/> <arg type="s" direction="in"/>
        <arg type="v" direction="out"/>
      </method>
      <method name="Event">
        <arg type="i" direction="in"/> <arg type="s" direction="in"/>
        <arg type="v" direction="in"/> <arg type="u" direction="in"/>
      </method>
      <method name="EventGroup">
        <arg type="a(isvu)" direction="in"/> <arg type="ai" direction="out"/>
      </method>
      <method name="AboutToShow">
        <arg type="i" direction="in"/> <arg type="b" direction="out"/>
      </method>
      <method name="AboutToShowGroup">
        <arg type="ai" direction="in"/>
        <arg type="ai" direction="out"/> <arg type="ai" direction="out"/>
      </method>
      <signal name="ItemsPropertiesUpdated">
        <arg type="a(ia{sv})"/> <arg type="a(ias)"/>
      </signal>
      <signal name="LayoutUpdated"> <arg type="u"/> <arg type="i"/> </signal>
      <signal name="ItemActivationRequested"> <arg type="i"/> <arg type="u"/> </signal>
    </interface>"""

    def __init__(self, bus, path):
        self._revision = 0
        self._next = 1
        self._items = {0: Item("root")}
        super().__init__(bus, path)

    def show(self, items):
        """Replaces the menu. Numbers are not used again, so a late click chooses nothing else."""
        self._items = {0: Item("root", below=items)}
        self._number(items)
        self._revision += 1
        self.emit("LayoutUpdated", "ui", self._revision, 0)

    def _number(self, items):
        for item in items:
            item.number = self._next
            self._items[self._next] = item
            self._next += 1
            self._number(item.below)

    @staticmethod
    def _values(item):
        if item.is_separator:
            return {"type": GLib.Variant("s", "separator")}
        values = {
            # A single underscore would mark the key that chooses the entry.
            "label": GLib.Variant("s", item.label.replace("_", "__")),
            "enabled": GLib.Variant("b", bool(item.action or item.below)),
        }
        if item.below:
            values["children-display"] = GLib.Variant("s", "submenu")
        return values

    def _layout(self, number, depth):
        item = self._items[number]
        below = [] if depth == 0 else [
            GLib.Variant("(ia{sv}av)", self._layout(child.number, depth - 1))
            for child in item.below]
        return (number, self._values(item), below)

    # MARK: The interface

    def get_Version(self):
        return 3

    def get_TextDirection(self):
        return "ltr"

    def get_Status(self):
        return "normal"

    def get_IconThemePath(self):
        return []

    def call_GetLayout(self, number, depth, names):
        # A host that asks for an entry of an older menu gets an empty one.
        if number not in self._items:
            return self._revision, (number, {}, [])
        return self._revision, self._layout(number, depth)

    def call_GetGroupProperties(self, numbers, names):
        wanted = numbers or list(self._items)
        return ([(n, self._values(self._items[n])) for n in wanted if n in self._items],)

    def call_GetProperty(self, number, name):
        item = self._items.get(number)
        return ((self._values(item) if item else {}).get(name, GLib.Variant("s", "")),)

    def call_Event(self, number, kind, data, time):
        item = self._items.get(number)
        if kind == "clicked" and item and item.action:
            item.action()

    def call_EventGroup(self, events):
        for event in events:
            self.call_Event(*event)
        return ([event[0] for event in events if event[0] not in self._items],)

    def call_AboutToShow(self, number):
        return (False,)

    def call_AboutToShowGroup(self, numbers):
        return [], [number for number in numbers if number not in self._items]
