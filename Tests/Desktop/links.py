"""Links with which anybody opens a document in a browser, made in a file manager."""

import os
import urllib.error
import urllib.parse
import urllib.request

import gi

gi.require_version("Gdk", "3.0")
gi.require_version("Gtk", "3.0")
from gi.repository import Gdk, Gtk  # noqa: E402

import concord_menu  # noqa: E402
from concord_files import State  # noqa: E402
from concord_folders import FolderStates  # noqa: E402
from filemanagers import choose, offered, select, turn  # noqa: E402
from session import (  # noqa: E402
    HOME, Application, expect, has_state, press, put, run, shot, wait)

SHARE = "Share a Link…"
PASSWORD = "correct horse"


def check(fleet, session):
    print("\n== Links")
    os.mkdir(fleet.two + "/Notes.rtfd")
    put(fleet.two + "/Notes.rtfd/TXT.rtf", "a package\n")
    fleet.sent()
    process = session.start("nemo", fleet.two)
    nemo = Application("nemo")
    wait("Nemo lists the files", lambda: nemo.row("safe.txt"))
    assert SHARE not in offered(nemo, "Letters"), "a folder has no links"
    expect("a package has links, too", lambda: SHARE in offered(nemo, "Notes.rtfd"))
    check_link(nemo)
    session.end(process)
    check_no_hub()
    check_reader(fleet, session)


def check_link(nemo):
    desktop = Application("concord-desktop")
    choose(nemo, "safe.txt", SHARE)
    expect("the window says that there are no links", lambda: any(
        "There are no links" in words for words in desktop.texts("label")))
    type_in(desktop, PASSWORD, "password text")
    desktop.click("May edit", "check box")
    wait("visitors may edit", lambda: has_state(desktop.named("May edit", "check box"), "CHECKED"))
    type_in(desktop, "nonsense", "text")
    desktop.click("Make Link", "push button")
    expect("a window says how to write a time", lambda: any(
        "is not a time to come" in words for words in desktop.texts("label")))
    desktop.click("Close", "push button")
    type_in(desktop, "after a week", "text")
    desktop.click("Make Link", "push button")
    address = expect("Make Link shows an address", lambda: shown_address(desktop))
    expect("the list has the link, with its password", lambda: (
        {"may edit", "yes"} <= set(desktop.cells())))
    shot("links")
    assert clipboard() == address, "the clipboard has something else"
    assert PASSWORD not in fetched(address), "the page shows the password"
    assert "safe.txt" not in fetched(address), "the page asks for no password"
    expect("the password opens the page of the document", lambda: (
        "safe.txt" in fetched(address, PASSWORD)))
    link = next(cell for cell in desktop.cells() if len(cell) == 8 and cell.isalnum())
    select(desktop, link)
    desktop.click("Revoke", "push button")
    expect("Revoke takes the link from the list", lambda: link not in desktop.cells())
    expect("and its address from the window", lambda: not shown_address(desktop))
    expect("the address leads nowhere", lambda: fetched(address) is None)
    press("alt+F4")
    wait("the window is closed", lambda: not desktop.nodes("frame"))


def type_in(program, words, role):
    """Writes into the first field of a window with this role that can be written in."""
    field = wait("there is a field", lambda: next((
        node for node in program.nodes(role) if has_state(node, "EDITABLE")
        and has_state(node, "SHOWING")), None))
    field.get_editable_text_iface().set_text_contents(words)


def shown_address(program):
    for node in program.nodes("text"):
        words = node.get_text_iface().get_text(0, -1)
        if words.startswith("http") and has_state(node, "SHOWING"):
            return words


def clipboard():
    Gtk.init_check()
    return Gtk.Clipboard.get(Gdk.SELECTION_CLIPBOARD).wait_for_text()


def fetched(address, password=None):
    """What a browser without an account gets; None if the link does not work."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    try:
        page = browser.open(address, timeout=60).read().decode()
        if password:
            field = page.split('name="token" value="')[1].split('"')[0]
            form = urllib.parse.urlencode({"token": field, "password": password}).encode()
            page = browser.open(address + "/password", form, timeout=60).read().decode()
        return page
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def check_no_hub():
    mount = f"{HOME}/alone/Documents"
    os.makedirs(mount)
    run("concord", "mount", mount, "--store", f"{HOME}/alone/store")
    try:
        file, changed = mount + "/a.txt", []
        put(file, "of no hub\n")
        folders = FolderStates(changed.append)

        def verbs():
            return turn() and folders.ask(file, lambda state: None) and {
                entry.verb for entry, _ in concord_menu.entries([(file, False)], folders)}

        expect("a volume without a hub has no links", lambda: (
            "versions" in (verbs() or ()) and "link" not in verbs()))
        wait("its state is settled", lambda: turn() and folders.known(file) == State.HERE)
        changed.clear()
    finally:
        run("concord", "unmount", mount)
    expect("file managers are told that a volume has gone", lambda: turn() and file in changed)


def check_reader(fleet, session):
    run("fsctl", "members", "role", "bert", "reader", "--at", fleet.one)
    mount = fleet.mount("three", "bert", "--owner", "anna")
    try:
        wait("the file is there", lambda: os.path.exists(mount + "/safe.txt"))
        process = session.start(concord_menu.PROGRAM, "link", "--", mount + "/safe.txt")
        desktop = Application("concord-desktop")
        desktop.click("Make Link", "push button")
        expect("a reader is told who makes links", lambda: any(
            "editor" in words for words in desktop.texts("label")))
        session.end(process)
    finally:
        run("concord", "unmount", mount)
