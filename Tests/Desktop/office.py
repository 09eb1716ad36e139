#!/usr/bin/env python3
"""Two people open and save documents in LibreOffice, each on a device: `make test-office`.

The programs are real: a hub, two mounts, and in the Debian that `Tests/Desktop/root` has made two
sessions with LibreOffice. What its windows say is read by AT-SPI, as a screen reader does. Run it
as root; it leaves no mount, process or file.
"""
import argparse
import contextlib
import os
import re
import signal
import sys
import xml.etree.ElementTree
import zipfile

sys.dont_write_bytecode = True
from debian import USER, Debian, Desktop, Hub, until  # noqa: E402

PERSON = "Zoë.Lovelace"
CONTENT = "content.xml"
TEXT = "application/vnd.oasis.opendocument.text"
URN = "urn:oasis:names:tc:opendocument:xmlns:"
DOCUMENT = f"""<?xml version="1.0" encoding="UTF-8"?>
<office:document-content office:version="1.3"
 xmlns:office="{URN}office:1.0" xmlns:text="{URN}text:1.0">
<office:body><office:text><text:p>The plan.</text:p></office:text></office:body>
</office:document-content>"""
MANIFEST = f"""<?xml version="1.0" encoding="UTF-8"?>
<manifest:manifest manifest:version="1.3" xmlns:manifest="{URN}manifest:1.0">
<manifest:file-entry manifest:full-path="/" manifest:media-type="{TEXT}"/>
<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/>
</manifest:manifest>"""
WINDOWS = ("frame", "dialog", "alert", "file chooser")
# LibreOffice asks nothing at its first start, saves what is needed for a recovery each minute, and
# keeps a copy of what it replaces.
SETTINGS = {
    "Office.Common/Misc": {"FirstRun": "false", "ShowTipOfTheDay": "false"},
    "Office.Common/Save/Document": {
        "CreateBackup": "true", "AutoSave": "true", "AutoSaveTimeIntervall": "1"},
    "Office.Recovery/AutoSave": {"Enabled": "true", "TimeIntervall": "1"},
    "Setup/Product": {"ooSetupLastVersion": "7.4"},
}


def write_document(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("mimetype", TEXT)
        file.writestr(CONTENT, DOCUMENT)
        file.writestr("META-INF/manifest.xml", MANIFEST)
    os.chown(path, USER, USER)


def words(path, part=CONTENT):
    """The text of a document; None if it has none at the moment."""
    try:
        with zipfile.ZipFile(path) as file:
            root = xml.etree.ElementTree.fromstring(file.read(part))
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
    return "".join(root.itertext()).strip()


class Person:
    """Somebody with a device, a session, and LibreOffice with a profile of their own."""

    def __init__(self, debian, hub, user, device, *more):
        self.debian, self.hub, self.user, self.device = debian, hub, user, device
        self.home = os.path.join(debian.scratch, device)
        os.mkdir(self.home)
        os.chown(self.home, USER, USER)
        self.mount = os.path.join(self.home, "Concord")
        hub.device(user, device, self.mount, *more)
        self.desktop = Desktop(debian, self.home)
        self.desktop.environment["SAL_USE_VCLPLUGIN"] = "gtk3"
        self.profile = os.path.join(self.home, "profile")
        # Where it keeps copies of what it replaces, and what is not saved.
        self.backup = os.path.join(self.profile, "user/backup")
        self.make_profile()
        self.office = None

    def make_profile(self):
        space = 'xmlns:oor="http://openoffice.org/2001/registry"'
        rows = [
            f'<item oor:path="/org.openoffice.{path}"><prop oor:name="{name}" oor:op="fuse">'
            f"<value>{value}</value></prop></item>"
            for path, values in SETTINGS.items() for name, value in values.items()]
        # No menu of LibreOffice 7.4 has the command that loads a document again.
        rows.append(
            '<item oor:path="/org.openoffice.Office.Accelerators/PrimaryKeys/Global">'
            '<node oor:name="F7_SHIFT_MOD1" oor:op="replace"><prop oor:name="Command">'
            '<value xml:lang="en-US">.uno:Reload</value></prop></node></item>')
        user = os.path.join(self.profile, "user")
        os.makedirs(self.backup)
        with open(os.path.join(user, "registrymodifications.xcu"), "w") as file:
            file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<oor:items {space}>\n')
            file.write("\n".join(rows) + "\n</oor:items>\n")
        for path, _, names in os.walk(self.profile):
            for changed in (path, *(os.path.join(path, name) for name in names)):
                os.chown(changed, USER, USER)

    def path(self, name):
        return os.path.join(self.mount, name)

    def lock(self, name):
        """What the owner file of a document says; None if there is none."""
        try:
            with open(self.path(f".~lock.{name}#"), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return None

    def start(self, name):
        """Starts LibreOffice with a document."""
        self.office = self.desktop.run(
            "soffice", "--writer", "--nologo",
            "-env:UserInstallation=file://" + self.debian.inside(self.profile),
            self.debian.inside(self.path(name)))

    def windows(self):
        return self.desktop.texts(*WINDOWS)

    def has_window(self, title):
        return lambda: any(title in text for text in self.windows())

    def awaits_window(self, title):
        until(f"{self.device} shows a window “{title}”", self.has_window(title))

    def opens(self, name):
        """Opens a document for editing; LibreOffice must not ask anything."""
        self.start(name)
        until(f"{self.device} shows {name}", self.windows)
        title = until(
            f"{self.device} shows {name} or asks",
            lambda: [text for text in self.windows() if text.startswith((name, "Question"))])
        self.expects_editing(name, title)

    def expects_editing(self, name, title=None):
        title = title or self.windows()
        assert title == [f"{name} - LibreOffice Writer"], f"{self.device}: {self.said()}"

    def said(self):
        return self.desktop.texts(*WINDOWS, "label", "paragraph")

    def edits(self, text):
        self.desktop.type(text)
        until(f"{self.device} shows “{text}”", lambda: any(
            text.strip() in row for row in self.desktop.texts("paragraph")))

    def saves(self, name, text):
        """Types a text and saves it."""
        self.edits(text)
        self.desktop.key("ctrl+s")
        until(f"{name} has “{text}” on {self.device}; there one reads {self.said()}",
              lambda: text in (words(self.path(name)) or ""))

    def quits(self):
        self.desktop.key("ctrl+q")
        until(f"LibreOffice ends on {self.device}", lambda: self.office.poll() is not None)

    def receives(self, number):
        """Sends a signal to LibreOffice."""
        profile = self.debian.inside(self.profile)
        for process in self.debian.marked():
            with open(f"/proc/{process}/cmdline") as file:
                if "soffice.bin" in (line := file.read()) and profile in line:
                    os.kill(process, number)

    def has_kept(self):
        """Whether LibreOffice has kept something, and has written down where."""
        with open(os.path.join(self.profile, "user/registrymodifications.xcu")) as file:
            known = file.read()
        return any(f"user/backup/{name}" in known for name in os.listdir(self.backup))

    def recovers(self, name, text):
        """Lets LibreOffice recover a document, in which there is this text then."""
        self.desktop.press("Start")
        self.desktop.press("Finish")
        until(f"{self.device} has recovered {name}: {self.said()}",
              lambda: text in self.desktop.texts("paragraph"))
        self.expects_editing(name)

    def names_file(self, name):
        """Answers the dialog that asks for a file name."""
        def named():
            return [text for role, _, text, states in self.desktop.look()
                    if role == "text" and "focused" in states]
        path = self.debian.inside(self.path(name))
        until("a file name is asked for", named)
        self.desktop.key("ctrl+a")
        self.desktop.type(path)
        until("the name is there", lambda: named() == [path])
        self.desktop.key("Return")

    def expect_versions(self, name, count):
        """Expects that a document has so many versions on this device, when all is sent."""
        self.hub.run("fsctl", "wait", "--durable", "hub", self.mount)
        found = self.hub.ask("versions", self.path(name))["versions"]
        said = [(version["person"], version["program"], version["size"]) for version in found]
        assert len(found) == count, f"{name} has other versions on {self.device}: {said}"


class Office:
    """What two people do, one after the other. Each scenario ends with all documents closed."""

    def __init__(self, zoe, bob, picture):
        self.zoe, self.bob, self.picture = zoe, bob, picture

    def document(self, name):
        write_document(self.zoe.path(name))
        until(f"{name} comes", lambda: words(self.bob.path(name)) == "The plan.")

    def bob_opens_read_only(self, name):
        """Bob is asked, and shows the document without editing it."""
        until(f"{name} is known to be open", lambda: PERSON in (self.bob.lock(name) or ""))
        self.bob.start(name)
        self.bob.awaits_window("Question")
        self.bob.desktop.press("Open Read-Only")
        self.bob.awaits_window(f"{name} (read-only)")

    def expect_no_conflicts(self):
        for person in (self.zoe, self.bob):
            found = self.zoe.hub.ask("conflicts", person.mount)["documents"]
            assert found == [], f"{person.device}: {found}"

    def expect_equal_names(self):
        """No device has a file that the other does not have, but what an ended program left."""
        until("both devices have the same documents", lambda: sorted(
            os.listdir(self.zoe.mount)) == sorted(os.listdir(self.bob.mount)))

    def named(self):
        """LibreOffice says who has the document, where, and since when."""
        self.document("plan.odt")
        self.zoe.opens("plan.odt")
        until("it is known to be open", lambda: PERSON in (self.bob.lock("plan.odt") or ""))
        self.bob.start("plan.odt")
        self.bob.awaits_window("Question")
        said = "\n".join(self.bob.desktop.texts("label"))
        assert "Document file 'plan.odt' is locked for editing by:" in said, said
        who = re.escape(PERSON) + r" \(desk\) \( \d\d\.\d\d\.\d{4} \d\d:\d\d \)"
        assert re.search(who, said), said
        if self.picture:
            self.bob.desktop.picture(self.picture)
        self.bob.desktop.press("Cancel")
        self.bob.quits()
        self.zoe.quits()

    def saved(self):
        """Zoë saves often, while Bob's program shows the document, and Bob gets it when he has closed it."""
        self.document("saved.odt")
        self.zoe.opens("saved.odt")
        self.bob_opens_read_only("saved.odt")
        for number in range(10):
            text = f"Save {number}. "
            self.zoe.saves("saved.odt", text)
            self.zoe.expects_editing("saved.odt")
        self.zoe.expect_versions("saved.odt", 11)
        # Bob's program only shows the document, so Zoë can close and open it.
        self.zoe.quits()
        self.zoe.opens("saved.odt")
        self.zoe.quits()
        # What a program has open for writing is not replaced, and LibreOffice keeps it open so.
        self.bob.quits()
        until("the last save comes", lambda: "Save 9." in (words(self.bob.path("saved.odt")) or ""))

    def ignored(self):
        """Bob ignores that Zoë has the document, saves, and is not asked again."""
        self.document("ignored.odt")
        self.zoe.opens("ignored.odt")
        until("it is known to be open", lambda: PERSON in (self.bob.lock("ignored.odt") or ""))
        self.bob.start("ignored.odt")
        self.bob.awaits_window("Question")
        self.bob.desktop.press("Open")
        self.bob.awaits_window("ignored.odt - LibreOffice Writer")
        for text in ("By Bob. ", "Twice. "):
            self.bob.saves("ignored.odt", text)
            self.bob.expects_editing("ignored.odt")
        self.bob.quits()
        self.zoe.expects_editing("ignored.odt")
        self.zoe.quits()
        until("Bob's saves come", lambda: "Twice. " in (words(self.zoe.path("ignored.odt")) or ""))
        self.bob.expect_versions("ignored.odt", 3)

    def closed(self):
        """When Zoë has closed the document, Bob edits it, and then Zoë is asked."""
        self.document("closed.odt")
        self.zoe.opens("closed.odt")
        until("it is known to be open", lambda: self.bob.lock("closed.odt"))
        self.zoe.quits()
        until("it is known to be closed", lambda: self.bob.lock("closed.odt") is None)
        self.bob.opens("closed.odt")
        self.bob.saves("closed.odt", "By Bob. ")
        until("Bob's save comes", lambda: "By Bob. " in (words(self.zoe.path("closed.odt")) or ""))
        self.zoe.start("closed.odt")
        self.zoe.awaits_window("Question")
        assert "bob (notebook)" in "\n".join(self.zoe.desktop.texts("label"))
        self.zoe.desktop.press("Cancel")
        self.zoe.quits()
        self.bob.quits()

    def killed(self):
        """A LibreOffice that is killed locks nobody out."""
        self.document("killed.odt")
        self.zoe.opens("killed.odt")
        until("it is known to be open", lambda: self.bob.lock("killed.odt"))
        self.zoe.receives(signal.SIGKILL)
        until("Zoë's program has ended", lambda: self.zoe.office.poll() is not None)
        until("it is known to be closed", lambda: self.bob.lock("killed.odt") is None)
        # Zoë's own owner file is left on Zoë's device, and nowhere else.
        assert self.zoe.lock("killed.odt")
        self.bob.opens("killed.odt")
        self.bob.saves("killed.odt", "By Bob. ")
        self.bob.quits()
        until("Bob's save comes", lambda: "By Bob. " in (words(self.zoe.path("killed.odt")) or ""))
        self.zoe.start("killed.odt")
        self.zoe.recovers("killed.odt", "By Bob. The plan.")
        self.zoe.saves("killed.odt", "By Zoe. ")
        self.zoe.quits()
        self.zoe.expect_versions("killed.odt", 3)

    def crashed(self):
        """What LibreOffice recovers after a crash is one more version."""
        self.document("crashed.odt")
        self.zoe.opens("crashed.odt")
        self.zoe.edits("Not saved. ")
        self.zoe.receives(signal.SIGSEGV)
        self.zoe.awaits_window("Document Recovery")
        # LibreOffice keeps what is not saved, and starts again.
        self.zoe.desktop.press("OK")
        self.zoe.recovers("crashed.odt", "Not saved. The plan.")
        self.zoe.expect_versions("crashed.odt", 1)
        self.zoe.saves("crashed.odt", "Now it is. ")
        self.zoe.quits()
        self.zoe.expect_versions("crashed.odt", 2)

    def autosaved(self):
        """What LibreOffice keeps by itself is no version; what it recovers is one when saved."""
        self.document("auto.odt")
        self.zoe.opens("auto.odt")
        self.zoe.edits("Not saved. ")
        until("LibreOffice keeps what is not saved", self.zoe.has_kept, seconds=300)
        self.zoe.receives(signal.SIGKILL)
        until("Zoë's program has ended", lambda: self.zoe.office.poll() is not None)
        self.zoe.expect_versions("auto.odt", 1)
        self.zoe.start("auto.odt")
        self.zoe.recovers("auto.odt", "Not saved. The plan.")
        self.zoe.saves("auto.odt", "Now it is. ")
        self.zoe.quits()
        self.zoe.expect_versions("auto.odt", 2)

    def formats(self):
        """Other formats and copies are documents like any other, and temporary files stay here."""
        self.document("letter.odt")
        self.zoe.opens("letter.odt")
        self.zoe.saves("letter.odt", "First. ")
        self.zoe.desktop.press("Save As...")
        self.zoe.names_file("letter.docx")
        self.zoe.desktop.press("Use Word 2007–365 Format")
        self.zoe.awaits_window("letter.docx - LibreOffice Writer")
        self.zoe.edits("Second. ")
        self.zoe.desktop.key("ctrl+s")
        part = "word/document.xml"
        until("both devices have the DOCX", lambda: all(
            "Second." in (words(person.path("letter.docx"), part) or "")
            for person in (self.zoe, self.bob)))
        self.zoe.desktop.press("Export Directly as PDF")
        self.zoe.names_file("letter.pdf")
        until("the PDF comes", lambda: os.path.exists(self.bob.path("letter.pdf")))
        self.zoe.quits()
        assert os.listdir(self.zoe.backup), "LibreOffice made no copy of what it replaced"
        for ending, count in (("odt", 2), ("docx", 2), ("pdf", 1)):
            self.zoe.expect_versions(f"letter.{ending}", count)

    def run(self, names):
        for name in names:
            try:
                getattr(self, name)()
                self.expect_no_conflicts()
                self.expect_equal_names()
            except AssertionError as failure:
                seen = {person.device: person.said() for person in (self.zoe, self.bob)}
                raise SystemExit(f"FAILED: {name}: {failure}\nThe windows say: {seen}") from None
            print(f"ok: {getattr(self, name).__doc__}", flush=True)


SCENARIOS = ["named", "saved", "ignored", "closed", "killed", "crashed", "autosaved", "formats"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("programs", help="the directory of concord and fsctl")
    parser.add_argument("root", help="the root of a Debian with LibreOffice")
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS, help=", ".join(SCENARIOS))
    parser.add_argument("--picture", help="where to put a picture of the dialog")
    return parser.parse_args()


def main():
    given = arguments()
    # A test that is ended leaves nothing either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("The test was ended."))
    with contextlib.ExitStack() as ending:
        debian = Debian(given.root)
        ending.callback(debian.close)
        hub = Hub(debian, given.programs)
        ending.callback(hub.close)
        ending.callback(debian.end_processes)
        debian.start()
        hub.start(PERSON, "bob")
        zoe = Person(debian, hub, PERSON, "desk")
        hub.run("fsctl", "members", "add", "bob", "--role", "editor", "--at", zoe.mount)
        bob = Person(debian, hub, "bob", "notebook", "--owner", PERSON)
        Office(zoe, bob, given.picture).run(given.scenarios)
    print("LibreOffice works on two devices.")


if __name__ == "__main__":
    main()
