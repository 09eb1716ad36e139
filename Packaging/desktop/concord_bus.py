"""An object on the session bus, from its interface in XML and Python methods."""

from gi.repository import Gio, GLib


class BusObject:
    """Exports one interface at one path of a bus.

    A D-Bus method M is answered by the method `call_M` of a subclass, which gets the arguments
    and returns a tuple of results or None. A property P is `get_P`.
    """

    INTERFACE = ""

    def __init__(self, bus, path):
        self.bus, self.path = bus, path
        self._info = Gio.DBusNodeInfo.new_for_xml(f"<node>{self.INTERFACE}</node>").interfaces[0]
        self._registration = bus.register_object(
            path, self._info, self._called, self._read, None)

    def withdraw(self):
        self.bus.unregister_object(self._registration)

    def emit(self, signal, signature=None, *values):
        """Sends a signal of the interface."""
        self.bus.emit_signal(
            None, self.path, self._info.name, signal,
            GLib.Variant(f"({signature})", values) if signature else None)

    def properties_changed(self, *names):
        """Sends the standard signal that these properties have new values."""
        values = {name: self._read(None, None, None, name) for name in names}
        self.bus.emit_signal(
            None, self.path, "org.freedesktop.DBus.Properties", "PropertiesChanged",
            GLib.Variant("(sa{sv}as)", (self._info.name, values, [])))

    def described(self):
        """Returns the values of all properties below the interface's name."""
        return {self._info.name: {
            property.name: self._read(None, None, None, property.name)
            for property in self._info.properties}}

    def _called(self, bus, sender, path, interface, method, arguments, invocation):
        results = getattr(self, "call_" + method)(*arguments.unpack())
        outs = "".join(
            argument.signature for argument in self._info.lookup_method(method).out_args)
        invocation.return_value(
            GLib.Variant(f"({outs})", results if results is not None else ()))

    def _read(self, bus, sender, path, interface_or_name, name=None, *_):
        name = name or interface_or_name
        return GLib.Variant(
            self._info.lookup_property(name).signature, getattr(self, "get_" + name)())
