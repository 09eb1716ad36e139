#!/usr/bin/env python3
"""Uses the hub's pages in a real Chromium: `make test-pages`.

Mounts two devices of a new hub, saves documents on them, and visits every page at desktop and phone
width, light and dark. Fails on a message in the console, a violation of the pages' policy or of
axe's rules for accessibility, a page wider than the window, and a first page of more than 100 kB.
"""

import argparse
import base64
import glob
import os
import sys
import tempfile

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.common.virtual_authenticator import VirtualAuthenticatorOptions

from browsing import Browser, Fleet, Visit

HOSTILE = ["<script>alert(1)<script>.txt", 'quote" onmouseover=alert(1) x=".txt', "\"\u0308 onfocus=alert(1).txt"]
PASSWORD = "correct horse"
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]>>endobj\ntrailer<</Root 1 0 R/Size 4>>\n%%EOF\n"
)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def write(path, contents):
    with open(path, "wb") as file:
        file.write(contents if isinstance(contents, bytes) else contents.encode())


def save_documents(fleet):
    """Saves documents with versions, a conflict and deleted ones."""
    laptop, desk = fleet.mount("laptop"), fleet.mount("desk")
    os.makedirs(f"{laptop}/Reports/2026")
    for name in HOSTILE:
        write(f"{laptop}/{name}", "hostile name")
    write(f"{laptop}/page.html", "<script>document.title='owned'</script>")
    write(f"{laptop}/drawing.svg", "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><script>alert(1)</script></svg>")
    write(f"{laptop}/manual.pdf", PDF)
    write(f"{laptop}/dot.png", PNG)
    write(f"{laptop}/gone.txt", "gone")
    report = f"{laptop}/Reports/2026/report.md"
    lines = [f"line {number}" for number in range(40)]
    write(report, "\n".join(lines) + "\n")
    letter = "letter.txt"
    write(f"{laptop}/{letter}", "one\n")
    fleet.sent(laptop)
    fleet.wait(lambda: os.path.exists(f"{desk}/{letter}"))
    fleet.sent(desk)
    os.unlink(f"{laptop}/gone.txt")
    write(report, "\n".join(lines[:20] + ["a new line"] + lines[22:]) + "\n")
    fleet.run("fsctl", "offline", "--at", desk)
    write(f"{desk}/{letter}", "of the desk\n")
    write(f"{laptop}/{letter}", "of the laptop\n")
    fleet.sent(laptop)
    fleet.run("fsctl", "online", "--at", desk)
    fleet.sent(desk)
    return laptop


def every_page(visit, browser):
    browser.go("/web")
    size = browser.transferred()
    visit.check(0 < size < 100_000, f"the first page has {size} bytes")
    visit.look(browser, "signin")
    browser.sign_in()
    visit.look(browser, "volumes")
    browser.follow("Documents")
    folder = browser.driver.current_url
    visit.look(browser, "folder")
    names = ["letter.txt", "page.html", "drawing.svg", "manual.pdf", "dot.png", "Reports", "Deleted"]
    for name in names + HOSTILE[:2]:
        browser.go(folder)
        browser.follow(name)
        visit.look(browser, name.split(".")[0].lower().replace("/", "")[:12].strip('<"'))
        visit.check("owned" not in browser.driver.title, f"{name} ran a script")
    browser.go(folder)
    browser.follow("Reports")
    browser.follow("2026")
    browser.follow("report.md")
    browser.open_changes()
    visit.look(browser, "report")
    report = browser.driver.current_url
    for page in ["Edit", "Move"]:
        browser.go(report)
        browser.open_changes()
        browser.follow(page)
        visit.look(browser, page.lower())
    browser.go(report)
    browser.follow("Compare")
    visit.check("a new line" in browser.text, "the comparison shows the changed line")
    visit.look(browser, "compare")
    browser.go(folder)
    browser.follow("letter.txt")
    browser.follow("Compare")
    visit.look(browser, "conflict")
    browser.go(folder)
    browser.follow("Past")
    visit.look(browser, "present")
    browser.earlier("gone.txt")
    browser.click(By.CSS_SELECTOR, "details.moments > summary")
    visit.look(browser, "past")
    browser.follow("gone.txt")
    visit.check("The past:" in browser.text, "a document of the past says so")
    visit.look(browser, "gone")
    browser.go(folder)
    browser.follow("Changes")
    visit.look(browser, "changes")
    browser.follow("Devices")
    visit.look(browser, "devices")
    browser.follow("Hub")
    browser.press("Make a code")
    visit.look(browser, "hub")
    links(visit, browser)


def made_link(browser):
    """Makes a link on the page for it, and returns its address."""
    browser.press("Make a link")
    return browser.driver.find_element(By.ID, "made").get_attribute("value")


def links(visit, browser):
    """Makes links to a document, opens them, and revokes one."""
    browser.go("/web")
    browser.follow("Documents")
    folder = browser.driver.current_url
    browser.follow("manual.pdf")
    browser.follow("Share")
    share = browser.driver.current_url
    visit.look(browser, "share")
    address = made_link(browser)
    visit.look(browser, "share-made")
    browser.go(address)
    visit.check("shared by anna" in browser.text, "the link's page names its maker")
    visit.look(browser, "link-pdf")
    browser.go(folder)
    browser.follow("page.html")
    browser.follow("Share")
    browser.fill("password", PASSWORD)
    browser.click(By.NAME, "edits")
    address = made_link(browser)
    browser.go(address)
    visit.look(browser, "link-entrance")
    browser.fill("password", PASSWORD, Keys.ENTER)
    browser.fleet.wait(lambda: "page.html" in browser.text)
    visit.look(browser, "link-edits")
    browser.follow("Edit")
    visit.look(browser, "link-edit")
    browser.go(folder)
    browser.follow("Links")
    visit.check("manual.pdf" in browser.text, "the page of the volume has all links")
    visit.look(browser, "links")
    browser.go(share)
    browser.press("Revoke")
    visit.check("The link is revoked." in browser.text, "the link is revoked")
    visit.look(browser, "link-revoked")
    browser.go("/s/unknown")
    browser.driver.get_log("browser")
    visit.check("This link does not work" in browser.text, "an unknown link has a page")
    visit.look(browser, "link-unknown")


def hostile_document(visit, browser):
    """Opens a page that a document contains, as the person could be led to do."""
    browser.sign_in()
    browser.follow("Documents")
    folder = browser.driver.current_url
    for name in ["page.html", "drawing.svg"]:
        browser.go(folder)
        browser.follow(name)
        browser.go(browser.driver.current_url + "/preview")
        visit.check("owned" not in browser.driver.title, f"{name} ran a script")
        visit.check(browser.driver.execute_script("return origin") == "null", f"{name} has an origin")
    blocked = [entry["message"] for entry in browser.driver.get_log("browser")]
    visit.check(any("Blocked script" in message for message in blocked), "the browser blocks scripts")
    browser.go(folder)


def with_the_keyboard(visit, browser):
    browser.sign_in()
    keys = browser.driver.switch_to
    keys.active_element.send_keys(Keys.ARROW_DOWN)
    visit.check("Documents" in keys.active_element.text, "the arrow key reaches the first volume")
    keys.active_element.send_keys(Keys.ENTER)
    browser.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_DOWN)
    first = keys.active_element.text
    keys.active_element.send_keys(Keys.END)
    visit.check(first and keys.active_element.text != first, "the key End reaches the last item")


def text_of(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def changes_with_the_keyboard(visit, browser, fleet, laptop):
    """Sends files, makes a folder, edits a text, and renames it, without the mouse."""
    browser.sign_in()
    browser.follow("Documents")
    folder = browser.driver.current_url
    for name in ["sent one.txt", "sent two.txt"]:
        write(fleet.path(name), name)
    browser.fill("files", "\n".join(fleet.path(name) for name in ["sent one.txt", "sent two.txt"]))
    fleet.wait(lambda: text_of(f"{laptop}/sent two.txt") == "sent two.txt")
    fleet.wait(lambda: browser.text.count("What you sent is saved.") == 2)
    visit.check(text_of(f"{laptop}/sent one.txt") == "sent one.txt", "both files are sent")
    visit.look(browser, "sent")
    write(fleet.path(".versions"), "a reserved name")
    browser.fill("files", fleet.path(".versions"))
    fleet.wait(lambda: "is reserved" in browser.text)
    refusals = [entry["message"] for entry in browser.driver.get_log("browser")]
    visit.check(
        len(refusals) == 1 and "status of 400" in refusals[0], "the console shows the refusal only")
    browser.go(folder)
    browser.fill("folder", "Made by keyboard", Keys.ENTER)
    fleet.wait(lambda: os.path.isdir(f"{laptop}/Made by keyboard"))
    browser.go(folder)
    browser.follow("sent one.txt")
    browser.follow("Edit")
    browser.fill("text", Keys.CONTROL, Keys.END, Keys.NULL, Keys.ENTER, "and more", Keys.TAB)
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    fleet.wait(lambda: text_of(f"{laptop}/sent one.txt") == "sent one.txt\nand more")
    browser.driver.find_element(By.CSS_SELECTOR, "details.change > summary").send_keys(Keys.ENTER)
    browser.fill("name", Keys.CONTROL, "a", Keys.NULL, "renamed.txt", Keys.ENTER)
    fleet.wait(lambda: os.path.exists(f"{laptop}/renamed.txt"))
    visit.check("called renamed.txt" in browser.text, "the page says the new name")


def live(visit, browser, fleet, laptop):
    """A page shows what a device saves while somebody looks at it."""
    browser.sign_in()
    browser.follow("Documents")
    write(f"{laptop}/while you look.txt", "new")
    fleet.wait(lambda: "while you look.txt" in browser.text)
    visit.look(browser, "live")
    browser.press("Sign out")


def the_past(visit, browser, fleet):
    """Moves through a folder's past with the slider, by the keyboard."""
    browser.sign_in()
    browser.follow("Documents")
    browser.follow("Past")
    slider = browser.driver.find_element(By.ID, "moment")
    visit.check(slider.get_attribute("aria-valuetext") == "Now", "the slider begins at the present")
    focus = lambda: browser.driver.switch_to.active_element
    key = Keys.HOME
    while "gone.txt" not in browser.text:
        address = browser.driver.current_url
        (slider if key == Keys.HOME else focus()).send_keys(key)
        fleet.wait(lambda: browser.driver.current_url != address and focus().get_attribute("id") == "moment")
        key = Keys.ARROW_RIGHT
    visit.check("deleted since" in browser.text, "the slider reaches what was deleted")
    value = browser.driver.find_element(By.CSS_SELECTOR, ".slider output").text
    visit.check(value and focus().get_attribute("aria-valuetext") == value, "the slider says its time")
    visit.look(browser, "slider")
    browser.press("Sign out")


def passkeys(visit, fleet):
    """Adds a passkey of an authenticator within Chromium, signs in with it, and removes it."""
    # A passkey belongs to a host's name, so an address of numbers has none.
    at = fleet.url.replace("127.0.0.1", "localhost")
    browser = Browser(fleet, 1280, 800)

    def sign_out():
        browser.press("Sign out")
        fleet.wait(lambda: "Sign in" in browser.driver.title)

    try:
        options = VirtualAuthenticatorOptions()
        options.has_resident_key = options.has_user_verification = True
        options.is_user_verified = True
        browser.driver.add_virtual_authenticator(options)
        browser.go(f"{at}/web")
        browser.press("Sign in with a passkey")
        fleet.wait(lambda: "gave no passkey" in browser.text)
        browser.fill("code", fleet.code(), Keys.ENTER)
        fleet.wait(lambda: "Volumes" in browser.driver.title)
        browser.go(f"{at}/web/devices")
        visit.look(browser, "devices-without-passkeys")
        browser.press("Add a passkey")
        fleet.wait(lambda: "The passkey is added" in browser.text)
        visit.look(browser, "passkey-added")
        browser.press("Add a passkey")
        fleet.wait(lambda: "has a passkey of your account already" in browser.text)
        for _ in range(2):
            sign_out()
            visit.look(browser, "signin-passkey")
            browser.press("Sign in with a passkey")
            fleet.wait(lambda: "Volumes" in browser.driver.title)
        browser.go(f"{at}/web/devices")
        visit.check("never" not in browser.text, "a used passkey was never used")
        browser.press("Remove")
        fleet.wait(lambda: "The passkey is removed" in browser.text)
        sign_out()
        browser.press("Sign in with a passkey")
        fleet.wait(lambda: "does not accept this passkey" in browser.text)
    finally:
        browser.driver.quit()


def without_script(visit, fleet, laptop):
    """Settles the conflict, restores a version and undeletes a document; the device receives all."""
    browser = Browser(fleet, 1280, 800, script=False)
    try:
        browser.sign_in()
        browser.follow("Documents")
        folder = browser.driver.current_url
        browser.follow("letter.txt")
        browser.press("Keep this one")
        visit.check("conflict is settled" in browser.text, "the conflict is settled")
        browser.go(folder)
        browser.follow("Reports")
        browser.follow("2026")
        browser.follow("report.md")
        browser.driver.find_elements(By.CSS_SELECTOR, ".versions th a")[-1].click()
        browser.press("Restore this version")
        visit.check("the current one now" in browser.text, "the version is restored")
        browser.go(folder)
        browser.follow("Deleted")
        browser.press("Undelete")
        fleet.wait(lambda: os.path.exists(f"{laptop}/gone.txt"))

        def restored():
            with open(f"{laptop}/Reports/2026/report.md") as file:
                return "a new line" not in file.read()

        def settled():
            return "conflict" not in fleet.run("fsctl", "status", laptop).lower()

        fleet.wait(restored)
        fleet.wait(settled)
        browser.go(folder)
        write(fleet.path("without script.txt"), "sent")
        browser.fill("files", fleet.path("without script.txt"))
        browser.press("Upload")
        visit.check("What you sent is saved." in browser.text, "the file is saved")
        fleet.wait(lambda: text_of(f"{laptop}/without script.txt") == "sent")
        browser.fill("folder", "Folder")
        browser.press("Make")
        browser.go(folder)
        browser.follow("without script.txt")
        document = browser.driver.current_url
        browser.follow("Share")
        browser.click(By.NAME, "edits")
        browser.go(made_link(browser))
        write(fleet.path("of a visitor.txt"), "of a visitor")
        browser.fill("file", fleet.path("of a visitor.txt"))
        browser.press("Upload")
        visit.check("What you sent is saved." in browser.text, "the visitor's version is saved")
        fleet.wait(lambda: text_of(f"{laptop}/without script.txt") == "of a visitor")
        browser.go(document)
        browser.follow("Edit")
        browser.fill("text", " and edited")
        browser.press("Save")
        fleet.wait(lambda: "and edited" in text_of(f"{laptop}/without script.txt"))
        browser.open_changes()
        browser.follow("Move")
        browser.follow("Folder")
        browser.press("Move here")
        fleet.wait(lambda: os.path.exists(f"{laptop}/Folder/without script.txt"))
        browser.open_changes()
        browser.press("Delete")
        visit.check("among the deleted items" in browser.text, "the document is deleted")
        fleet.wait(lambda: not os.path.exists(f"{laptop}/Folder/without script.txt"))
        browser.follow("Past")
        browser.earlier("without script.txt")
        visit.check("deleted since" in browser.text, "the past has what was deleted")
        browser.press("Show")
        visit.check("The past:" in browser.text or "as it is now" in browser.text, "a time is chosen")
        browser.earlier("without script.txt")
        browser.press("Undelete")
        fleet.wait(lambda: os.path.exists(f"{laptop}/Folder/without script.txt"))
        browser.press("Sign out")
        browser.go(folder)
        visit.check("Sign in" in browser.driver.title, "signed out")
    finally:
        browser.driver.quit()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binaries", help="the directory of concord and fsctl")
    parser.add_argument("--axe", required=True, help="a pattern for the path of axe.min.js")
    parser.add_argument("--shots", help="a directory for pictures of the pages")
    arguments = parser.parse_args()
    with open(glob.glob(arguments.axe, recursive=True)[0]) as file:
        visit = Visit(file.read(), arguments.shots)
    with tempfile.TemporaryDirectory(prefix="concord-pages") as scratch:
        fleet = Fleet(os.path.abspath(arguments.binaries), scratch)
        try:
            laptop = save_documents(fleet)
            for width, height in [(1280, 800), (390, 844)]:
                for dark in [False, True]:
                    browser = Browser(fleet, width, height, dark)
                    try:
                        every_page(visit, browser)
                    finally:
                        browser.driver.quit()
            browser = Browser(fleet, 1280, 800)
            try:
                hostile_document(visit, browser)
                browser.press("Sign out")
                with_the_keyboard(visit, browser)
                browser.press("Sign out")
                changes_with_the_keyboard(visit, browser, fleet, laptop)
                browser.press("Sign out")
                live(visit, browser, fleet, laptop)
                the_past(visit, browser, fleet)
            finally:
                browser.driver.quit()
            passkeys(visit, fleet)
            without_script(visit, fleet, laptop)
        finally:
            fleet.close()
    for fault in visit.faults:
        print(fault)
    print(f"{visit.count} pages, {len(visit.faults)} faults")
    return 1 if visit.faults else 0


if __name__ == "__main__":
    sys.exit(main())
