"""The volumes as accounts in the sidebar of file managers (org.freedesktop.CloudProviders)."""

from concord_bus import BusObject
from concord_files import printable

PATH = "/local/concord/CloudProviders"
IDLE, SYNCING, ERROR = 1, 2, 3


class Provider(BusObject):
    """Concord as a provider of accounts."""

    INTERFACE = """
    <interface name="org.freedesktop.CloudProviders.Provider">
      <property name="Name" type="s" access="read"/>
    </interface>"""

    def get_Name(self):
        return "Concord"


class Account(BusObject):
    """A volume: its name, where it is, and how it is."""

    INTERFACE = """
    <interface name="org.freedesktop.CloudProviders.Account">
      <property name="Name" type="s" access="read"/>
      <property name="Path" type="s" access="read"/>
      <property name="Icon" type="s" access="read"/>
      <property name="Status" type="i" access="read"/>
      <property name="StatusDetails" type="s" access="read"/>
    </interface>"""

    def __init__(self, bus, path, state):
        self.state = state
        super().__init__(bus, path)

    def get_Name(self):
        return self.state.name

    def get_Path(self):
        return printable(self.state.root)

    def get_Icon(self):
        return "folder-remote"

    def get_Status(self):
        if self.state.needs_person:
            return ERROR
        return SYNCING if self.state.unsafe and not self.state.is_paused else IDLE

    def get_StatusDetails(self):
        return self.state.summary


class Providers(BusObject):
    """The list of the provider and its accounts, as libcloudproviders reads it."""

    INTERFACE = """
    <interface name="org.freedesktop.DBus.ObjectManager">
      <method name="GetManagedObjects">
        <arg type="a{oa{sa{sv}}}" direction="out"/>
      </method>
      <signal name="InterfacesAdded"> <arg type="o"/> <arg type="a{sa{sv}}"/> </signal>
      <signal name="InterfacesRemoved"> <arg type="o"/> <arg type="as"/> </signal>
    </interface>"""

    def __init__(self, bus):
        self._provider = Provider(bus, PATH + "/Provider")
        self._accounts = {}
        self._next = 0
        super().__init__(bus, PATH)

    def show(self, states):
        """Changes the accounts to those of these volumes."""
        states = {state.root: state for state in states}
        for root in set(self._accounts) - set(states):
            account = self._accounts.pop(root)
            self.emit("InterfacesRemoved", "oas", account.path, list(account.described()))
            account.withdraw()
        for root, state in states.items():
            account = self._accounts.get(root)
            if account is None:
                account = Account(self.bus, f"{PATH}/Account{self._next}", state)
                self._next += 1
                self._accounts[root] = account
                self.emit("InterfacesAdded", "oa{sa{sv}}", account.path, account.described())
            elif account.state is not state:
                account.state = state
                account.properties_changed("Name", "Status", "StatusDetails")

    def call_GetManagedObjects(self):
        return ({
            exported.path: exported.described()
            for exported in [self._provider, *self._accounts.values()]},)
