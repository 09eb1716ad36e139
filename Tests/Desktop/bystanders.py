"""What a desktop's shell does on the session bus: it keeps status icons and shows notices.

It writes what it was told to standard output, a JSON array for each thing; from standard input
it takes the notices' actions that a person chooses, a number and an action on each line.
"""

import json
import os
import sys

import gi

sys.path.append("/usr/share/concord/desktop")
gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib  # noqa: E402
from concord_bus import BusObject  # noqa: E402


def tell(*what):
    print(json.dumps(what), flush=True)


class Watcher(BusObject):
    INTERFACE = """
    <interface name="org.kde.StatusNotifierWatcher">
      <property name="ProtocolVersion" type="i" access="read"/>
      <property name="IsStatusNotifierHostRegistered" type="b" access="read"/>
      <method name="RegisterStatusNotifierItem"> <arg type="s" direction="in"/> </method>
    </interface>"""

    def get_ProtocolVersion(self):
        return 0

    def get_IsStatusNotifierHostRegistered(self):
        return True

    def call_RegisterStatusNotifierItem(self, name):
        tell("icon", name)


class Shell(BusObject):
    INTERFACE = """
    <interface name="org.freedesktop.Notifications">
      <method name="Notify">
        <arg type="s" direction="in"/> <arg type="u" direction="in"/>
        <arg type="s" direction="in"/> <arg type="s" direction="in"/>
        <arg type="s" direction="in"/> <arg type="as" direction="in"/>
        <arg type="a{sv}" direction="in"/> <arg type="i" direction="in"/>
        <arg type="u" direction="out"/>
      </method>
      <method name="CloseNotification"> <arg type="u" direction="in"/> </method>
      <method name="GetCapabilities"> <arg type="as" direction="out"/> </method>
      <signal name="ActionInvoked"> <arg type="u"/> <arg type="s"/> </signal>
    </interface>"""

    last = 0

    def call_Notify(self, program, replaced, icon, title, text, actions, hints, time):
        if not replaced:
            self.last += 1
            replaced = self.last
        # The daemon shows a notice of its own, without actions.
        tell("notice", replaced, title, text, dict(zip(actions[1::2], actions[::2])))
        return (replaced,)

    def call_CloseNotification(self, number):
        tell("closed", number)

    def call_GetCapabilities(self):
        return (["actions", "body"],)


def main():
    bus = Gio.bus_get_sync(Gio.BusType.SESSION)
    loop = GLib.MainLoop()
    shell = Shell(bus, "/org/freedesktop/Notifications")
    Watcher(bus, "/StatusNotifierWatcher")
    for name in ("org.freedesktop.Notifications", "org.kde.StatusNotifierWatcher"):
        Gio.bus_own_name_on_connection(bus, name, Gio.BusNameOwnerFlags.NONE, None, None)

    def chosen(source, condition):
        line = os.read(0, 1000).decode()
        if not line:
            loop.quit()
            return False
        for words in line.splitlines():
            number, action = words.split()
            shell.emit("ActionInvoked", "us", int(number), action)
        return True

    GLib.io_add_watch(0, GLib.PRIORITY_DEFAULT, GLib.IO_IN | GLib.IO_HUP, chosen)
    loop.run()


main()
