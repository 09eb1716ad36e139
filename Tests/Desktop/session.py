"""A hub with two mounted devices, a desktop session, and what looks at its windows."""

import json
import os
import subprocess
import sys
import time

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, Gio, GLib  # noqa: E402

HOME = os.path.expanduser("~")
SHOTS = HOME + "/shots"


def wait(what, condition):
    """Waits until the condition has a value that is not empty, and returns that."""
    end = time.monotonic() + 60
    while True:
        try:
            if value := condition():
                return value
        except GLib.Error:
            # A window changed while it was looked at. The next look sees what is there then.
            pass
        if time.monotonic() > end:
            shot("failed")
            raise SystemExit(f"FAILED: {what}")
        time.sleep(0.1)


def expect(what, condition):
    """Waits until the condition holds, and says so."""
    value = wait(what, condition)
    print(f"ok: {what}", flush=True)
    return value


def run(*command, **options):
    """Runs a program, and returns what it writes."""
    done = subprocess.run(
        command, text=True, timeout=60, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if done.returncode:
        raise SystemExit(f"FAILED: {' '.join(command)}: {done.stderr}")
    return done.stdout


def fails(*command):
    """Whether a program refuses to do something."""
    return subprocess.run(command, capture_output=True, timeout=60).returncode != 0


def shot(name):
    """Keeps a picture of the screen, if there is one."""
    if "DISPLAY" in os.environ:
        os.makedirs(SHOTS, exist_ok=True)
        subprocess.run(
            ["import", "-window", "root", "-trim", "+repage", "-colors", "200",
             f"PNG8:{SHOTS}/{name}.png"], timeout=60)


class Fleet:
    """A hub with two mounted devices of one account."""

    def __init__(self):
        os.chdir(HOME)
        self.users = ["anna", "bert"]
        for user in self.users:
            run("concord", "hub", "user", "add", user, "--data", "hub")
        self.log = open("hub.log", "w")
        self.address = "127.0.0.1:0"
        self.start_hub()
        self.address = self.url.split("//")[1]
        self.one, self.two = self.mount("one"), self.mount("two")

    def start_hub(self):
        self.hub = subprocess.Popen(
            ["concord", "hub", "--data", "hub", "--listen", self.address], stdout=self.log,
            stderr=self.log)
        self.url = wait("the hub listens", self._listening)

    def stop_hub(self):
        self.hub.terminate()
        self.hub.wait(60)

    def _listening(self):
        with open("hub.log") as log:
            for line in log:
                if "listens on " in line:
                    return line.split("listens on ")[1].strip()

    def mount(self, name, user="anna", *options):
        """Mounts a volume on a device of this name and signs it in; returns where it is."""
        mount = f"{HOME}/{name}/Documents"
        os.makedirs(mount)
        run("concord", "mount", mount, "--store", f"{HOME}/{name}/store")
        code = run("concord", "hub", "invite", user, "--data", "hub").split()[-1]
        run("fsctl", "signin", self.url, "--volume", "Documents", "--device", name, "--code", "-",
            "--at", mount, *options, input=code + "\n")
        return mount

    def sent(self):
        """Waits until each device has what the other one has saved."""
        for _ in range(2):
            for mount in (self.one, self.two):
                run("fsctl", "wait", "--durable", "hub", mount)

    def close(self):
        for mount in (self.one, self.two):
            run("concord", "unmount", mount)
        self.stop_hub()


def status(path):
    """What the daemon says of a document or a volume."""
    return json.loads(run("fsctl", "status", "--json", path))


def state(path):
    return status(path)["state"]


def put(path, text):
    with open(path, "w") as file:
        file.write(text)


def text(path):
    with open(path) as file:
        return file.read()


class Session:
    """An X server without a screen, a session bus, a window manager, and assistive technology."""

    def __init__(self):
        self._processes = []
        runtime = f"{HOME}/runtime"
        os.makedirs(runtime, mode=0o700)
        os.environ.update(
            XDG_RUNTIME_DIR=runtime, GTK_MODULES="gail:atk-bridge", GSETTINGS_BACKEND="keyfile",
            GDK_BACKEND="x11", GTK_A11Y="atspi", GSK_RENDERER="cairo",
            PYTHONDONTWRITEBYTECODE="1")
        reader, writer = os.pipe()
        self.start(
            "Xvfb", "-displayfd", str(writer), "-screen", "0", "1000x760x24", "-nolisten", "tcp",
            pass_fds=[writer])
        os.close(writer)
        os.environ["DISPLAY"] = ":" + os.fdopen(reader).readline().strip()
        bus = self.start(
            "dbus-daemon", "--session", "--nofork", "--print-address=1", stdout=subprocess.PIPE)
        os.environ["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.readline().decode().strip()
        setting("org.gnome.desktop.interface", "toolkit-accessibility", "true")
        self.start("openbox")
        self.bus = Gio.bus_get_sync(Gio.BusType.SESSION)

    def start(self, *command, **options):
        options.setdefault("stdout", self._log())
        options.setdefault("stderr", self._log())
        process = subprocess.Popen(command, **options)
        self._processes.append(process)
        return process

    def end(self, process):
        process.terminate()
        process.wait(60)
        self._processes.remove(process)

    def close(self):
        while self._processes:
            self.end(self._processes[-1])

    def call(self, name, path, interface, method, signature=None, *values):
        """Calls a method on the session bus, and returns its results."""
        arguments = GLib.Variant(f"({signature})", values) if signature else None
        return self.bus.call_sync(
            name, path, interface, method, arguments, None, Gio.DBusCallFlags.NONE, 60000,
            None).unpack()

    def has(self, name):
        return self.call(
            "org.freedesktop.DBus", "/", "org.freedesktop.DBus", "NameHasOwner", "s", name)[0]

    @staticmethod
    def _log():
        return open(f"{HOME}/session.log", "a")


def setting(schema, key, value):
    run("gsettings", "set", schema, key, value)


# MARK: Windows


def below(node, depth=0):
    """All that is shown in a window."""
    yield node
    if depth > 40:
        return
    for index in range(node.get_child_count()):
        child = node.get_child_at_index(index)
        if child:
            yield from below(child, depth + 1)


def has_state(node, name):
    return node.get_state_set().contains(getattr(Atspi.StateType, name))


class Application:
    """A running program, as a screen reader knows it."""

    def __init__(self, name):
        self.name = name

    def nodes(self, *roles):
        """What the program shows now, of these roles."""
        desktop = Atspi.get_desktop(0)
        found = []
        try:
            for index in range(desktop.get_child_count()):
                program = desktop.get_child_at_index(index)
                if program and program.get_name() == self.name:
                    program.clear_cache()
                    found += [node for node in below(program) if node.get_role_name() in roles]
        except GLib.Error:
            return []
        return found

    def named(self, name, *roles):
        for node in self.nodes(*roles):
            if node.get_name() == name and has_state(node, "SHOWING"):
                return node

    def texts(self, *roles):
        return [node.get_name() for node in self.nodes(*roles)]

    def cells(self, role="table cell"):
        """The texts of the cells of all lists, without empty ones."""
        return [name for name in self.texts(role) if name]

    def row(self, name, role="table cell"):
        """The text that follows a file's name in its row."""
        cells = self.cells(role)
        if name in cells:
            return cells[cells.index(name) + 1:][:1]

    def click(self, name, *roles):
        """Does the action of a button or of an entry of a menu."""
        wait(f"{name} is shown by {self.name}", lambda: act(self.named(name, *roles)))

    def point(self, name, role, *buttons):
        """Clicks on something with the mouse."""
        place = wait(f"{name} is shown by {self.name}", lambda: at(self.named(name, role)))
        run("xdotool", "mousemove", *place)
        for button in buttons:
            run("xdotool", "click", str(button))


def act(node):
    """Does the action of what can be chosen; returns whether it could."""
    return node and has_state(node, "SENSITIVE") and node.get_action_iface().do_action(0)


def at(node):
    """A place on the screen within something that is shown."""
    if not node:
        return None
    box = node.get_component_iface().get_extents(Atspi.CoordType.SCREEN)
    return str(box.x + min(40, box.width // 2)), str(box.y + box.height // 2)


def press(*keys):
    run("xdotool", "key", *keys)


if sys.flags.optimize:
    raise SystemExit("The test needs its assertions.")
