"""The status icon, its menu, the notices and the sidebar, as a desktop's shell sees them."""

import json
import os
import shutil
import subprocess
import sys

import gi

gi.require_version("CloudProviders", "0.3")
from gi.repository import CloudProviders, Gio, GLib  # noqa: E402

from session import (  # noqa: E402
    HOME, Application, expect, press, put, run, shot, status, text, wait)

ITEM = "org.kde.StatusNotifierItem"
MENU = "com.canonical.dbusmenu"


def check(fleet, session):
    desktop = Desktop(session)
    check_icon(fleet, desktop)
    check_pause(fleet, desktop)
    check_conflict(fleet, desktop)
    check_refusal(fleet, desktop)
    check_deletions(fleet, desktop)
    check_sidebar(fleet, desktop)
    check_sign_out(fleet, desktop)
    desktop.close()


class Desktop:
    """A desktop's shell, and concord-status, which it shows."""

    def __init__(self, session):
        self.session = session
        self._told = open(f"{HOME}/told", "w+")
        self._shell = session.start(
            sys.executable, f"{HOME}/desktop/bystanders.py", stdin=subprocess.PIPE,
            stdout=self._told)
        wait("the shell is there", lambda: session.has("org.kde.StatusNotifierWatcher"))
        self._program = session.start("concord-status")
        self.name = expect(
            "the icon is registered", lambda: next(self.told("icon"), None))[0]

    def close(self):
        self.session.end(self._program)
        self._shell.stdin.close()
        self.session.end(self._shell)

    def told(self, kind):
        """What the shell was told of this kind, the newest first."""
        with open(f"{HOME}/told") as lines:
            found = [json.loads(line) for line in lines if line.endswith("\n")]
        return (what[1:] for what in reversed(found) if what[0] == kind)

    def property(self, name):
        return self.session.call(
            self.name, "/StatusNotifierItem", "org.freedesktop.DBus.Properties", "Get", "ss", ITEM,
            name)[0]

    # MARK: The menu

    def entries(self):
        """The entries of the menu with those below them, in their order: label and number."""
        layout = self.session.call(
            self.name, self.property("Menu"), MENU, "GetLayout", "iias", 0, -1, [])[1]
        found = []

        def add(item):
            number, values, below = item
            found.append((values.get("label", ""), number))
            for child in below:
                add(child)

        add(layout)
        return found[1:]

    def labels(self):
        return [label for label, _ in self.entries()]

    def choose(self, label, mount):
        """Chooses an entry of a volume, which is one that follows the volume's own."""
        entries = self.entries()
        start = next(
            index for index, (words, _) in enumerate(entries)
            if words.startswith(shown(mount) + ":"))
        number = next(number for words, number in entries[start:] if words == label)
        self.session.call(
            self.name, self.property("Menu"), MENU, "Event", "isvu", number, "clicked",
            GLib.Variant("s", ""), 0)

    # MARK: Notices

    def notice(self, words, mount):
        """A notice of concord-status with these words about a volume that is shown: its fields."""
        closed = list(self.told("closed"))
        for number, title, body, actions in self.told("notice"):
            is_about = words in title and shown(mount) in title + body
            if actions and is_about and [number] not in closed:
                return number, title, body, actions

    def answer(self, notice, label):
        """Chooses an action of a notice, as a person who clicks its button does."""
        self._shell.stdin.write(f"{notice[0]} {notice[3][label]}\n".encode())
        self._shell.stdin.flush()

    def has_closed(self, notice):
        return [notice[0]] in self.told("closed")


def shown(mount):
    return "~" + mount[len(HOME):]


def check_icon(fleet, desktop):
    print("\n== Status icon")
    for mount in (fleet.one, fleet.two):
        expect(f"the menu says that {shown(mount)} is safe", lambda: (
            shown(mount) + ": everything is safe" in desktop.labels()))
    expect("the icon says it, too", lambda: (
        desktop.property("IconName") == "concord-safe"
        and desktop.property("Status") == "Active"
        and "everything is safe" in desktop.property("ToolTip")[3]))
    assert desktop.session.call(
        "local.concord.Desktop", "/local/concord/Desktop", "local.concord.Desktop",
        "AreOnVolumes", "as", [f"file://{fleet.two}/both.txt"]) == (True,)
    assert desktop.session.call(
        "local.concord.Desktop", "/local/concord/Desktop", "local.concord.Desktop",
        "AreOnVolumes", "as", [f"file://{fleet.two}/both.txt", "file:///etc/fstab"]) == (False,)
    print("ok: Dolphin is told which files are on volumes")
    desktop.choose("Open Folder", fleet.two)
    expect("Open Folder opens the folder", lambda: Application("nemo").named("Documents", "frame"))
    press("alt+F4")


def check_pause(fleet, desktop):
    print("\n== Pause")
    desktop.choose("Pause", fleet.two)
    expect("Pause stops the traffic", lambda: status(fleet.two)["hub"]["state"] == "offline")
    put(fleet.two + "/paused.txt", "written while paused\n")
    expect("the menu says what is not safe", lambda: (
        shown(fleet.two) + ": paused, 1 change is not safe yet" in desktop.labels()))
    expect("the icon shows the pause", lambda: desktop.property("IconName") == "concord-paused")
    desktop.choose("What Is Not Safe…", fleet.two)
    window = Application("concord-desktop")
    expect("a window lists it", lambda: window.row("paused.txt"))
    shot("not-safe")
    press("alt+F4")
    desktop.choose("Resume", fleet.two)
    expect("Resume sends it", lambda: os.path.exists(fleet.one + "/paused.txt"))
    expect("the menu says so", lambda: (
        shown(fleet.two) + ": everything is safe" in desktop.labels()))


def check_conflict(fleet, desktop):
    print("\n== Notice of a conflict")
    run("fsctl", "offline", "--at", fleet.two)
    put(fleet.two + "/both.txt", "again at two\n")
    put(fleet.one + "/both.txt", "again at one\n")
    run("fsctl", "wait", "--durable", "hub", fleet.one)
    run("fsctl", "online", "--at", fleet.two)
    notice = expect("there is a notice", lambda: desktop.notice("edited twice", fleet.two))
    assert "both.txt" in notice[2], notice
    expect("the icon asks for attention", lambda: (
        desktop.property("Status") == "NeedsAttention"
        and desktop.property("IconName") == "concord-attention"))
    assert "both.txt" in desktop.labels() and "Conflicts (1)" in desktop.labels()
    desktop.answer(notice, "Open Folder")
    expect("Open Folder opens it", lambda: Application("nemo").named("Documents", "frame"))
    press("alt+F4")
    desktop.answer(notice, "Show Conflict")
    window = Application("concord-desktop")
    expect("Show Conflict shows it", lambda: window.named("Conflict of both.txt", "frame"))
    shot("notice-conflict")
    window.click("Keep Selected", "push button")
    expect("the notice is closed when it is settled", lambda: desktop.has_closed(notice))
    press("alt+F4")


def check_refusal(fleet, desktop):
    print("\n== Notice of a refusal")
    run("concord", "hub", "user", "quota", "anna", "1", "--data", "hub")
    put(fleet.two + "/large.txt", "more than the quota allows\n")
    notice = expect("there is a notice", lambda: desktop.notice("needs you", fleet.two))
    assert "large.txt" in notice[2], notice
    desktop.answer(notice, "Show Details")
    window = Application("concord-desktop")
    expect("Show Details says why", lambda: window.row("large.txt"))
    shot("notice-refusal")
    press("alt+F4")
    run("concord", "hub", "user", "quota", "anna", "none", "--data", "hub")
    desktop.answer(notice, "Try Again")
    expect("Try Again sends it", lambda: os.path.exists(fleet.one + "/large.txt"))
    expect("the notice is closed", lambda: desktop.has_closed(notice))


def check_deletions(fleet, desktop):
    print("\n== Notice of a mass deletion")
    os.mkdir(fleet.two + "/Many")
    for number in range(80):
        put(f"{fleet.two}/Many/{number}.txt", f"{number}\n")
    fleet.sent()
    shutil.rmtree(fleet.two + "/Many")
    notice = expect("there is a notice", lambda: desktop.notice("held back", fleet.two))
    assert len(os.listdir(fleet.one + "/Many")) == 80
    desktop.answer(notice, "Delete Everywhere")
    expect("Delete Everywhere deletes on the other device", lambda: (
        not os.path.exists(fleet.one + "/Many")))
    expect("the notice is closed", lambda: desktop.has_closed(notice))


def check_sidebar(fleet, desktop):
    print("\n== Sidebar")
    collector = CloudProviders.Collector.dup_singleton()

    def accounts():
        while GLib.MainContext.default().iteration(False):
            pass
        return {
            account.get_path(): account.get_name()
            for provider in collector.get_providers() for account in provider.get_accounts()}

    expect("libcloudproviders finds the volumes", lambda: accounts() == {
        mount: shown(mount) for mount in (fleet.one, fleet.two)})


def check_sign_out(fleet, desktop):
    print("\n== Notice of a lost account")
    device = status(fleet.two)["device"]
    run("fsctl", "devices", "--revoke", device, "--at", fleet.one)
    notice = expect("there is a notice", lambda: desktop.notice("needs you", fleet.two))
    desktop.answer(notice, "Show Details")
    window = Application("concord-desktop")
    expect("Show Details says why", lambda: any(
        "sign in" in words.lower() for words in window.texts("label")))
    press("alt+F4")
