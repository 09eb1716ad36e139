"""A hub with mounted devices, a Chromium that signs in to it, and what looks at its pages."""

import base64
import json
import os
import subprocess
import time

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


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
        """Presses a button. If it sends a form, the next page is there when this returns."""
        page = self.driver.find_element(By.TAG_NAME, "html")
        path = f"//button[contains(., '{text}')]"
        sends = self.use(By.XPATH, path, lambda button: button.get_attribute("type")) == "submit"

        def is_replaced():
            try:
                return not page.tag_name
            except WebDriverException:
                return True

        self.click(By.XPATH, path)
        if sends:
            self.fleet.wait(is_replaced)

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
        """What the page shows; nothing while its document is being replaced."""
        try:
            return self.use(By.TAG_NAME, "body", lambda element: element.text)
        except NoSuchElementException:
            return ""

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
