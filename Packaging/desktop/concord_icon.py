"""The status icon (org.kde.StatusNotifierItem)."""

import os

from gi.repository import Gio, GLib

from concord_bus import BusObject

WATCHER = "org.kde.StatusNotifierWatcher"
PATH = "/StatusNotifierItem"
MENU_PATH = "/StatusNotifierItem/Menu"


class StatusIcon(BusObject):
    """The icon, its tool tip, and the path of its menu."""

    INTERFACE = """
    <interface name="org.kde.StatusNotifierItem">
      <property name="Category" type="s" access="read"/>
      <property name="Id" type="s" access="read"/>
      <property name="Title" type="s" access="read"/>
      <property name="Status" type="s" access="read"/>
      <property name="WindowId" type="i" access="read"/>
      <property name="IconName" type="s" access="read"/>
      <property name="AttentionIconName" type="s" access="read"/>
      <property name="OverlayIconName" type="s" access="read"/>
      <property name="ToolTip" type="(sa(iiay)ss)" access="read"/>
      <property name="ItemIsMenu" type="b" access="read"/>
      <property name="Menu" type="o" access="read"/>
      <method name="ContextMenu">
        <arg type="i" direction="in"/> <arg type="i" direction="in"/>
      </method>
      <method name="Activate">
        <arg type="i" direction="in"/> <arg type="i" direction="in"/>
      </method>
      <method name="SecondaryActivate">
        <arg type="i" direction="in"/> <arg type="i" direction="in"/>
      </method>
      <method name="Scroll">
        <arg type="i" direction="in"/> <arg type="s" direction="in"/>
      </method>
      <signal name="NewTitle"/>
      <signal name="NewIcon"/>
      <signal name="NewAttentionIcon"/>
      <signal name="NewOverlayIcon"/>
      <signal name="NewToolTip"/>
      <signal name="NewStatus"> <arg type="s"/> </signal>
    </interface>"""

    def __init__(self, bus, activated):
        self._activated = activated
        self._icon, self._text, self._needs_person = "concord-safe", "", False
        super().__init__(bus, PATH)
        self._name = f"org.kde.StatusNotifierItem-{os.getpid()}-1"
        Gio.bus_own_name_on_connection(bus, self._name, Gio.BusNameOwnerFlags.NONE, None, None)
        # The program that shows icons may start later, or again.
        Gio.bus_watch_name_on_connection(
            bus, WATCHER, Gio.BusNameWatcherFlags.NONE, self._watcher_appeared, None)

    def show(self, icon, text, needs_person):
        """Changes the icon, the text of its tool tip, and whether it asks for attention."""
        has_new_status = needs_person != self._needs_person
        self._icon, self._text, self._needs_person = icon, text, needs_person
        self.emit("NewIcon")
        self.emit("NewAttentionIcon")
        self.emit("NewToolTip")
        if has_new_status:
            self.emit("NewStatus", "s", self.get_Status())

    def _watcher_appeared(self, bus, name, owner):
        bus.call(
            WATCHER, "/StatusNotifierWatcher", WATCHER, "RegisterStatusNotifierItem",
            GLib.Variant("(s)", (self._name,)), None, Gio.DBusCallFlags.NONE, -1,
            None, None)

    # MARK: The interface

    def get_Category(self):
        return "ApplicationStatus"

    def get_Id(self):
        return "concord"

    def get_Title(self):
        return "Concord"

    def get_Status(self):
        return "NeedsAttention" if self._needs_person else "Active"

    def get_WindowId(self):
        return 0

    def get_IconName(self):
        return self._icon

    def get_AttentionIconName(self):
        return self._icon

    def get_OverlayIconName(self):
        return ""

    def get_ToolTip(self):
        return (self._icon, [], "Concord", GLib.markup_escape_text(self._text))

    def get_ItemIsMenu(self):
        return False

    def get_Menu(self):
        return MENU_PATH

    def call_Activate(self, x, y):
        self._activated()

    def call_ContextMenu(self, x, y):
        """The host shows the menu that it finds at the property Menu."""

    def call_SecondaryActivate(self, x, y):
        self._activated()

    def call_Scroll(self, delta, orientation):
        """There is nothing to scroll."""
