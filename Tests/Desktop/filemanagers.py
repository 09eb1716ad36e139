"""What file managers show of Concord's files, and what their menus do."""

import os
import signal
import sys

from gi.repository import Gio, GLib

import concord_menu
from concord_files import State
from concord_folders import FolderStates
from session import (
    Application, expect, fails, has_state, press, put, run, setting, shot, state, status,
    text, wait)

THUMBNAILER = "org.freedesktop.thumbnails.Thumbnailer1"
KEEP, LET_GO = "Keep on This Device", "Do Not Keep on This Device"
MENU = {
    "Versions…", "Settle Conflict…", KEEP, LET_GO, "Download Now", "Free Up Space",
    "Share a Link…", "Share…"}


def check(fleet, session):
    run("gio", "mime", "inode/directory", "nemo.desktop")
    show_states("org.nemo")
    setting("org.nemo.preferences", "confirm-trash", "false")
    # Nemo reads a picture itself when the program for thumbnails may not. Desktop.md says how to
    # switch thumbnails off for a volume: in its menu View, and by this preference.
    run("gio", "set", fleet.two, "metadata::show-thumbnails", "false")
    setting("org.nemo.preferences", "inherit-show-thumbnails", "true")
    process = session.start("nemo", fleet.two)
    nemo = Application("nemo")
    check_states(fleet, nemo)
    check_menu(fleet, nemo)
    check_actions(fleet, nemo)
    check_trash(fleet, nemo)
    session.end(process)
    check_thumbnails(fleet, session)
    check_thunar(fleet, session)
    check_nautilus(fleet, session)
    check_caja(fleet, session)
    check_emblems(fleet)
    check_stopped(fleet)
    check_dolphin()


def show_states(schema):
    """Lets a file manager that keeps its settings below a schema list names and states."""
    setting(f"{schema}.preferences", "default-folder-viewer", "'list-view'")
    for key in ("default-visible-columns", "default-column-order"):
        setting(f"{schema}.list-view", key, "['name', 'ConcordColumn::state']")


def check_unknown(fleet, name, is_listed):
    """A file manager that lists a file whose type its name does not tell does not download it."""
    # GLib looks at the first bytes before it tells the name.
    wait(f"{name} lists minutes", is_listed)
    assert state(fleet.two + "/minutes") == "dataless", f"{name} has downloaded minutes"
    print(f"ok: {name} does not download a file whose type its name does not tell")


def check_states(fleet, nemo):
    print("\n== States")
    for name, words in {
        "Letters": "Safe", "safe.txt": "Safe", "both.txt": "Conflict", "there.txt": "Only there",
        "picture.png": "Only there",
    }.items():
        expect(f"Nemo shows that {name} is {words}", lambda: nemo.row(name) == [words])
    check_unknown(fleet, "Nemo", lambda: nemo.row("minutes") == ["Only there"])
    shot("nemo-states")
    run("fsctl", "offline", "--at", fleet.two)
    put(fleet.two + "/new.txt", "new\n")
    put(fleet.two + "/draft.swp", "not kept\n")
    expect("a new file is only here", lambda: nemo.row("new.txt") == ["Only here"])
    odd = os.fsencode(fleet.two) + b"/\xff.txt"
    put(odd, "a name that is not UTF-8\n")
    expect("a temporary file is not kept", lambda: nemo.row("draft.swp") == ["Not kept"])
    run("fsctl", "online", "--at", fleet.two)
    expect("it is safe when it has been sent", lambda: nemo.row("new.txt") == ["Safe"])
    expect("a file that the hub does not take stays only here", lambda: (
        nemo.row("\N{REPLACEMENT CHARACTER}.txt (invalid encoding)") == ["Only here"]))
    os.remove(odd)
    put(fleet.one + "/safe.txt", "changed at one\n")
    run("fsctl", "limit", "--up", "20", "--at", fleet.two)
    with open(fleet.two + "/slow.bin", "wb") as file:
        file.write(os.urandom(1 << 20))
    expect("a file that is being sent moves", lambda: nemo.row("slow.bin") == ["Moving"])
    run("fsctl", "limit", "--up", "0", "--at", fleet.two)
    expect("then it is safe", lambda: nemo.row("slow.bin") == ["Safe"])
    fleet.stop_hub()
    put(fleet.two + "/new.txt", "without a hub\n")
    expect("without a connection it is only here", lambda: nemo.row("new.txt") == ["Only here"])
    fleet.start_hub()
    expect("with one it is safe again", lambda: nemo.row("new.txt") == ["Safe"])
    expect(
        "a change of the other device arrives and is safe",
        lambda: text(fleet.two + "/safe.txt") == "changed at one\n"
        and nemo.row("safe.txt") == ["Safe"])
    os.remove(fleet.two + "/draft.swp")


def open_menu(nemo, name):
    """Opens the menu of a file, and returns the entry Concord in it."""
    nemo.point(name, "table cell", 1, 3)
    return lambda: nemo.named("Concord", "menu")


def check_menu(fleet, nemo):
    print("\n== Menu")
    expect("a file in conflict has Concord's menu", open_menu(nemo, "both.txt"))
    nemo.point("Concord", "menu", 1)
    expect("it has all entries that make sense", lambda: entries(nemo) == MENU - {LET_GO})
    shot("nemo-menu")
    press("Escape", "Escape")


def check_actions(fleet, nemo):
    print("\n== Actions")
    desktop = Application("concord-desktop")
    choose(nemo, "safe.txt", "Free Up Space")
    expect("Free Up Space leaves a file only there", lambda: (
        state(fleet.two + "/safe.txt") == "dataless" and nemo.row("safe.txt") == ["Only there"]))
    choose(nemo, "safe.txt", "Download Now")
    expect("Download Now downloads it", lambda: (
        state(fleet.two + "/safe.txt") == "current" and nemo.row("safe.txt") == ["Safe"]))
    choose(nemo, "safe.txt", KEEP)
    expect("a file that is kept cannot be evicted", lambda: is_pinned(fleet.two + "/safe.txt"))
    # The question before may have evicted it, if it came before the pin.
    wait("it is here", lambda: nemo.row("safe.txt") == ["Safe"])
    expect("its menu offers only not to keep it", lambda: (
        {KEEP, LET_GO} & offered(nemo, "safe.txt") == {LET_GO}))
    choose(nemo, "safe.txt", "Free Up Space")
    expect("a window says why its space is not freed", lambda: any(
        "is pinned" in words for words in desktop.texts("label")))
    shot("refusal")
    desktop.click("Close", "push button")
    choose(nemo, "safe.txt", LET_GO)
    expect("it can be evicted again", lambda: not is_pinned(fleet.two + "/safe.txt"))
    expect("its menu offers only to keep it", lambda: (
        {KEEP, LET_GO} & offered(nemo, "safe.txt") == {KEEP}))
    run("fsctl", "pin", fleet.two + "/Letters")
    folders = FolderStates(lambda path: None)
    wait("the folder is known", lambda: (
        turn() and folders.ask(fleet.two + "/Letters/a.txt", lambda state: None)))
    expect("a file in a folder that is kept is kept, too", lambda: folders.kept(
        [fleet.two + "/Letters", fleet.two + "/Letters/a.txt", fleet.two + "/safe.txt"])
        == [True, True, False])
    run("fsctl", "unpin", fleet.two + "/Letters/a.txt")
    expect("but not if it is excepted", lambda: folders.kept(
        [fleet.two + "/Letters/a.txt"]) == [False])
    run("fsctl", "unpin", fleet.two + "/Letters")
    run("fsctl", "download", fleet.two + "/safe.txt")

    choose(nemo, "thrown.txt", "Versions…")
    put(fleet.two + "/thrown.txt", "a second version\n")
    expect("the window of versions shows a version that is saved meanwhile", lambda: (
        [cell for cell in desktop.cells() if cell in ("1", "2 current")] == ["2 current", "1"]))
    shot("versions")
    select(desktop, "1")
    desktop.click("Restore", "push button")
    expect("Restore restores the selected version", lambda: (
        text(fleet.two + "/thrown.txt") == "the contents of thrown.txt\n"))
    press("alt+F4")

    choose(nemo, "both.txt", "Share…")
    wait("the members are shown", lambda: "anna (you)" in desktop.cells())
    entry = wait("there is a field for a name", lambda: desktop.nodes("text"))[0]
    entry.get_editable_text_iface().set_text_contents("bert")
    desktop.click("Add", "push button")
    expect("Share adds a member", lambda: (
        "bert" in run("fsctl", "members", "--at", fleet.two) and "bert" in desktop.cells()))
    shot("members")
    press("alt+F4")

    choose(nemo, "both.txt", "Settle Conflict…")
    expect("the window of a conflict shows both versions", lambda: (
        {"one", "two"} <= set(desktop.cells())))
    shot("conflict")
    other = next(cell for cell in desktop.cells() if cell.endswith(" in conflict"))
    shown = text(fleet.two + "/both.txt")
    select(desktop, other)
    desktop.click("Keep Selected", "push button")
    expect("Keep Selected settles the conflict on both devices", lambda: all(
        text(mount + "/both.txt") not in ("", shown) and status(mount)["conflicts"] == 0
        for mount in (fleet.one, fleet.two)))
    expect("its window says so", lambda: (
        "No versions of this document are in conflict." in desktop.texts("label")))
    expect("Nemo shows it", lambda: nemo.row("both.txt") == ["Safe"])
    press("alt+F4")


def choose(program, name, entry):
    """Chooses an entry of Concord's menu for a file, as a person does with the mouse."""
    open_concord(program, name)
    wait(f"{entry} can be chosen", lambda: can_be_chosen(program.named(entry, "menu item")))
    program.point(entry, "menu item", 1)
    wait("the menu is closed", lambda: not program.named("Concord", "menu"))


def open_concord(program, name):
    wait("the menu is open", open_menu(program, name))
    program.point("Concord", "menu", 1)


def can_be_chosen(node):
    return node and has_state(node, "SENSITIVE")


def offered(program, name):
    """The entries of Concord's menu for a file."""
    open_concord(program, name)
    found = wait("its entries are shown", lambda: entries(program))
    press("Escape", "Escape")
    wait("the menu is closed", lambda: not program.named("Concord", "menu"))
    return found


def entries(program):
    """The entries that the open menu shows."""
    return {label for label in MENU if program.named(label, "menu item")}


def select(desktop, words):
    """Selects the row of a list that has these words."""
    desktop.point(words, "table cell", 1)


def is_pinned(path):
    """Whether the daemon refuses to evict a file because it is to stay here."""
    return fails("fsctl", "evict", path)


def check_trash(fleet, nemo):
    print("\n== Trash")
    file, other = fleet.two + "/thrown.txt", fleet.one + "/thrown.txt"
    trash = fleet.two + "/.Trash-1000"
    contents = text(file)
    nemo.point("thrown.txt", "table cell", 1)
    press("Delete")
    expect("Delete moves a file to the trash of the volume", lambda: (
        os.path.exists(trash + "/files/thrown.txt") and not os.path.exists(file)))
    expect("it is gone on the other device", lambda: not os.path.exists(other))
    expect("the trash stays on its device", lambda: (
        ".Trash-1000" not in os.listdir(fleet.one)
        and fails("fsctl", "status", trash + "/files/thrown.txt")))
    press("ctrl+z")
    expect("Undo brings it back on both devices", lambda: all(
        os.path.exists(path) and text(path) == contents for path in (file, other)))
    file = fleet.two + "/there.txt"
    run("gio", "trash", file)
    expect("a file that is only there can be thrown away, too", lambda: (
        not os.path.exists(file) and not os.path.exists(fleet.one + "/there.txt")))
    address = wait("the trash lists it", lambda: next((
        line.split("\t")[0] for line in run("gio", "trash", "--list").splitlines()
        if line.endswith("\t" + file)), None))
    run("gio", "trash", "--restore", address)
    expect("it comes back from the trash with its contents on both devices", lambda: all(
        os.path.exists(mount + "/there.txt")
        and text(mount + "/there.txt") == "the contents of there.txt\n"
        for mount in (fleet.one, fleet.two)))


def check_thumbnails(fleet, session):
    print("\n== Thumbnails")
    picture = fleet.two + "/picture.png"
    address = Gio.File.new_for_path(picture).get_uri()
    answers = []
    session.bus.signal_subscribe(
        None, THUMBNAILER, None, None, None, Gio.DBusSignalFlags.NONE,
        lambda *arguments: answers.append(arguments[4]))
    session.call(
        THUMBNAILER, "/org/freedesktop/thumbnails/Thumbnailer1", THUMBNAILER, "Queue",
        "asasssu", [address], ["image/png"], "normal", "default", 0)

    expect("tumbler gives up a picture that is only there", lambda: (
        turn() and "Finished" in answers))
    assert "Ready" not in answers, answers
    expect("GNOME's thumbnailer gives it up, too", lambda: fails(
        "gdk-pixbuf-thumbnailer", "-s", "128", address, "/tmp/thumbnail.png"))
    assert state(picture) == "dataless"
    run("fsctl", "download", picture)
    run("gdk-pixbuf-thumbnailer", "-s", "128", address, "/tmp/thumbnail.png")
    print("ok: a picture that is here has a thumbnail")
    run("fsctl", "evict", picture)


def check_thunar(fleet, session):
    print("\n== Thunar")
    run("xfconf-query", "-c", "thunar", "-n", "-p", "/last-view", "-t", "string", "-s",
        "ThunarDetailsView")
    fleet.sent()
    run("fsctl", "evict", fleet.two + "/there.txt")
    process = session.start("thunar", fleet.two)
    thunar = Application("thunar")
    check_unknown(fleet, "Thunar", lambda: thunar.named("minutes", "table cell"))
    # The extension asks for the states of a folder when Thunar opens the first menu in it.
    expect("a file has Concord's menu", open_menu(thunar, "both.txt"))
    press("Escape")
    expect("another file has it, too", open_menu(thunar, "there.txt"))
    thunar.click("Concord", "menu")
    expect("it has the entries that are due", lambda: (
        {"Versions…", "Download Now", "Share…"} <= set(thunar.texts("menu item"))))
    shot("thunar-menu")
    assert "Free Up Space" not in thunar.texts("menu item")
    thunar.click("Download Now", "menu item")
    expect("Download Now downloads it", lambda: state(fleet.two + "/there.txt") == "current")
    press("Escape")
    thunar.point("there.txt", "table cell", 1)
    press("alt+Return")
    expect("the properties have a page of Concord", lambda: "Concord" in thunar.texts("page tab"))
    expect("it says where the contents are", lambda: (
        "The hub has the current contents, and so has this device." in thunar.texts("label")))
    session.end(process)


def check_nautilus(fleet, session):
    print("\n== Nautilus")
    show_states("org.gnome.nautilus")
    process = session.start("nautilus", "--select", fleet.two + "/there.txt")
    nautilus = Application("org.gnome.Nautilus")
    for name, words in {"Letters": "Safe", "picture.png": "Only there"}.items():
        expect(f"Nautilus shows that {name} is {words}", lambda: (
            nautilus.row(name, "label") == [words]))
    check_unknown(fleet, "Nautilus", lambda: nautilus.row("minutes", "label") == ["Only there"])
    # A menu gives the focus to what the pointer is on.
    run("xdotool", "mousemove", "999", "5")
    press("shift+Down")
    press("shift+F10")
    wait("the menu is open", lambda: nautilus.texts("menu item"))
    walk(nautilus, "Concord", "Up")
    press("Return")
    walk(nautilus, "Free Up Space", "Down")
    shot("nautilus-menu")
    press("Return")
    expect("Free Up Space leaves the selected files only there", lambda: all(
        state(f"{fleet.two}/{name}") == "dataless"
        and nautilus.row(name, "label") == ["Only there"] for name in ("there.txt", "thrown.txt")))
    assert state(fleet.two + "/safe.txt") == "current", "another file has been evicted, too"
    assert state(fleet.two + "/picture.png") == "dataless"
    session.end(process)


def walk(program, name, key):
    """Presses a key until an entry of a menu has the focus."""

    def has_focus():
        if any(has_state(node, "FOCUSED") and node.get_name() == name
               for node in program.nodes("menu item")):
            return True
        press(key)

    wait(f"{name} has the focus", has_focus)


def check_caja(fleet, session):
    print("\n== Caja")
    show_states("org.mate.caja")
    process = session.start("caja", "--no-desktop", fleet.two)
    caja = Application("caja")
    for name, words in {"Letters": "Safe", "picture.png": "Only there"}.items():
        expect(f"Caja shows that {name} is {words}", lambda: caja.row(name) == [words])
    check_unknown(fleet, "Caja", lambda: caja.row("minutes") == ["Only there"])
    choose(caja, "safe.txt", "Free Up Space")
    expect("Free Up Space leaves it only there", lambda: (
        state(fleet.two + "/safe.txt") == "dataless" and caja.row("safe.txt") == ["Only there"]))
    shot("caja")
    session.end(process)


class ShownFile:
    """A file as a file manager hands it to an extension, with what the extension says of it."""

    def __init__(self, path):
        self._path = path
        self.forget()

    def forget(self):
        self.emblems, self.attributes, self.is_outdated = [], {}, False

    def get_location(self):
        return Gio.File.new_for_path(self._path)

    def weak_ref(self):
        return lambda: self

    def add_emblem(self, name):
        self.emblems.append(name)

    def add_string_attribute(self, name, text):
        self.attributes[name] = text

    def invalidate_extension_info(self):
        self.is_outdated = True


def check_emblems(fleet):
    print("\n== Emblems")
    # Assistive technology does not know emblems, so the extension is asked here.
    sys.path.append("/usr/share/nemo-python/extensions")
    from concord_extension import ConcordExtension, Host
    extension = ConcordExtension()

    def emblem(name):
        file = ShownFile(f"{fleet.two}/{name}")
        states = []
        extension._folders.ask(f"{fleet.two}/{name}", states.append)
        wait("the state is known", lambda: turn() and states)
        assert extension.update_file_info_full(
            extension, None, None, file) == Host.OperationResult.COMPLETE
        return file

    put(fleet.two + "/draft.swp", "not kept\n")
    for name, icon in {
        "both.txt": ["emblem-default"], "picture.png": ["emblem-concord-only-there"],
        "draft.swp": [],
    }.items():
        expect(f"{name} has the emblems {icon}", lambda: emblem(name).emblems == icon)
    file = emblem("both.txt")
    run("fsctl", "offline", "--at", fleet.two)
    put(fleet.two + "/both.txt", "changed\n")
    expect("Nemo is told that the state has changed", lambda: turn() and file.is_outdated)
    expect("and that it is only here", lambda: (
        emblem("both.txt").emblems == ["emblem-concord-only-here"]))
    run("fsctl", "online", "--at", fleet.two)
    os.remove(fleet.two + "/draft.swp")
    expect("it is safe again", lambda: emblem("both.txt").emblems == ["emblem-default"])


def check_stopped(fleet):
    print("\n== A stopped daemon")
    process = status(fleet.two)["process"]
    folders, states = FolderStates(lambda path: None), []
    known = FolderStates(lambda path: None)
    wait("the socket is known", lambda: (
        turn() and known.ask(fleet.two + "/both.txt", lambda state: None)))

    def is_stopped():
        return text(f"/proc/{process}/stat").split()[2] == "T"

    def offered():
        entries = concord_menu.entries([(fleet.two + "/both.txt", False)], known)
        return {"pin", "unpin"} & {entry.verb for entry, _ in entries}

    os.kill(process, signal.SIGSTOP)
    try:
        wait("the daemon is stopped", is_stopped)
        is_known = folders.ask(fleet.two + "/both.txt", states.append)
        turn()
        assert is_stopped() and not is_known and not states
        assert offered() == {"pin", "unpin"} and is_stopped()
    finally:
        os.kill(process, signal.SIGCONT)
    print("ok: a daemon that does not answer keeps no file manager waiting")
    expect("its answer comes later", lambda: turn() and states == [State.SAFE])
    expect("the menu knows again what makes sense", lambda: offered() == {"pin"})


def check_dolphin():
    print("\n== Dolphin")
    menu = GLib.KeyFile()
    menu.load_from_file(
        "/usr/share/kio/servicemenus/concord-dolphin.desktop", GLib.KeyFileFlags.NONE)
    verbs = menu.get_value("Desktop Entry", "Actions").strip(";").split(";")
    entries = {
        verb: (
            menu.get_value(f"Desktop Action {verb}", "Name"),
            menu.get_value(f"Desktop Action {verb}", "Exec").rpartition(" ")[0])
        for verb in verbs}
    assert entries == {
        entry.verb: (entry.label.replace("_", ""), f"{concord_menu.PROGRAM} {entry.verb} --")
        for entry in concord_menu.ENTRIES}, entries
    print("ok: its menu has the entries of the others")


def turn():
    """Lets GLib's main loop do what is due; returns True."""
    while GLib.MainContext.default().iteration(False):
        pass
    return True
