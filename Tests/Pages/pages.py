#!/usr/bin/env python3
"""Uses the hub's pages in a real Chromium: `make test-pages`.

Mounts two devices of a new hub, saves documents on them, and visits every page at desktop and phone
width, light and dark. Fails on a message in the console, a violation of the pages' policy or of
axe's rules for accessibility, a page wider than the window, and a first page of more than 100 kB.
"""

import argparse
import base64
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

HOSTILE = ["<script>alert(1)<script>.txt", 'quote" onmouseover=alert(1) x=".txt', "\"\u0308 onfocus=alert(1).txt"]
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]>>endobj\ntrailer<</Root 1 0 R/Size 4>>\n%%EOF\n"
)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Fleet:
    """A hub with two mounted devices."""

    def __init__(self, binaries, scratch):
        self.binaries, self.scratch = binaries, scratch
        self.mounts = []
        self.run("concord", "hub", "user", "add", "anna", "--quota", "1G", "--data", self.path("hub"))
        self.run("concord", "hub", "user", "add", "bert", "--data", self.path("hub"))
        self.run("concord", "hub", "user", "owner", "anna", "--data", self.path("hub"))
        self.log = open(self.path("hub.log"), "w+")
        self.hub = subprocess.Popen(
            [f"{binaries}/concord", "hub", "--data", self.path("hub"), "--listen", "127.0.0.1:0"],
            stdout=self.log, stderr=self.log)
        self.url = self.wait(self.listening)

    def path(self, name):
        return f"{self.scratch}/{name}"

    def run(self, program, *arguments, **options):
        return subprocess.run(
            [f"{self.binaries}/{program}", *arguments], check=True, text=True, timeout=60,
            capture_output=True, **options).stdout

    def listening(self):
        with open(self.path("hub.log")) as log:
            for line in log:
                if "listens on " in line:
                    return line.split("listens on ")[1].strip()

    def wait(self, condition):
        """Waits until the condition holds, and returns its value."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if value := condition():
                return value
            time.sleep(0.05)
        raise SystemExit(f"the condition {condition.__name__} did not come true")

    def code(self):
        return self.run("concord", "hub", "invite", "anna", "--data", self.path("hub")).split()[-1]

    def mount(self, name):
        mount = self.path(name)
        os.mkdir(mount)
        self.run("concord", "mount", mount, "--store", self.path(name + "-store"))
        self.mounts.append(mount)
        self.run(
            "fsctl", "signin", self.url, "--volume", "Documents", "--device", name, "--code", "-",
            "--at", mount, input=self.code() + "\n")
        return mount

    def sent(self, mount):
        self.run("fsctl", "wait", "--durable", "hub", mount)

    def close(self):
        for mount in self.mounts:
            self.run("concord", "unmount", mount)
        self.hub.terminate()
        self.hub.wait(60)


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


class Browser:
    def __init__(self, fleet, width, height, dark=False, script=True):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]:
            options.add_argument(argument)
        if not script:
            options.add_experimental_option(
                "prefs", {"profile.managed_default_content_settings.javascript": 2})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(
            options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=width < 500)
        self.fleet, self.name = fleet, f"{width}-{'dark' if dark else 'light'}"

    def command(self, method, **arguments):
        return self.driver.execute_cdp_cmd(method, arguments)

    def go(self, path):
        self.driver.get(path if path.startswith("http") else self.fleet.url + path)

    def follow(self, text):
        self.click(By.PARTIAL_LINK_TEXT, text)

    def press(self, text):
        self.click(By.XPATH, f"//button[contains(., '{text}')]")

    def click(self, by, what):
        self.use(by, what, lambda element: element.click())

    def use(self, by, what, action):
        """Finds an element again if its page was replaced meanwhile, because it is live."""
        for attempt in range(5):
            try:
                return action(self.driver.find_element(by, what))
            except StaleElementReferenceException:
                if attempt == 4:
                    raise

    def earlier(self, name):
        """Goes back in a folder's past until there is something of this name."""
        while name not in self.text:
            self.follow("Earlier change")

    def open_changes(self):
        self.click(By.CSS_SELECTOR, "details.change > summary")

    def fill(self, field, *keys):
        self.driver.find_element(By.ID, field).send_keys(*keys)

    def sign_in(self):
        self.go("/web")
        self.driver.find_element(By.ID, "code").send_keys(self.fleet.code(), Keys.ENTER)
        self.fleet.wait(lambda: "Volumes" in self.driver.title)

    @property
    def text(self):
        return self.use(By.TAG_NAME, "body", lambda element: element.text)

    def transferred(self):
        """The bytes of all answers since the last call."""
        entries = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return sum(
            entry["params"]["encodedDataLength"] for entry in entries
            if entry["method"] == "Network.loadingFinished")


class Visit:
    """Looks at pages, and collects what is wrong with them."""

    def __init__(self, axe, shots):
        self.axe, self.shots, self.faults, self.count = axe, shots, [], 0

    def look(self, browser, name):
        driver, label = browser.driver, f"{name} {browser.name}"
        self.count += 1
        for entry in driver.get_log("browser"):
            self.faults.append(f"{label}: the console says {entry['message']}")
        if driver.execute_script("return document.documentElement.scrollWidth > innerWidth"):
            self.faults.append(f"{label}: the page is wider than the window")
        # Evaluated by the debugger, because the pages' policy allows no script from elsewhere.
        browser.command("Runtime.evaluate", expression=self.axe)
        violations = driver.execute_async_script(
            "axe.run(document, { iframes: false }).then((found) => arguments[0](found.violations.map("
            "(one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 200))}`)));")
        self.faults += [f"{label}: axe says {violation}" for violation in violations]
        if self.shots:
            height = driver.execute_script("return document.documentElement.scrollHeight")
            width = driver.execute_script("return innerWidth")
            clip = {"x": 0, "y": 0, "width": width, "height": min(max(height, 500), 2000), "scale": 1}
            shot = browser.command("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
            with open(f"{self.shots}/{name}-{browser.name}.png", "wb") as file:
                file.write(base64.b64decode(shot["data"]))

    def check(self, holds, what):
        if not holds:
            self.faults.append(what)


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
            without_script(visit, fleet, laptop)
        finally:
            fleet.close()
    for fault in visit.faults:
        print(fault)
    print(f"{visit.count} pages, {len(visit.faults)} faults")
    return 1 if visit.faults else 0


if __name__ == "__main__":
    sys.exit(main())
