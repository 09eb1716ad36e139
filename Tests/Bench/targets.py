"""The targets to measure: each provides a directory to write in, and removes everything afterwards."""

import os
import shutil
import subprocess
import time


def mounted(path):
    with open("/proc/self/mountinfo") as table:
        return any(unescape(line.split()[4]) == path for line in table)


def unescape(text):
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


class Target:
    """A directory on a medium, either bare or mounted by a program in the foreground."""

    def __init__(self, name, base, command=None):
        self.name, self.base, self.command = name, base, command
        # These alternatives take minutes for a round, so they are measured only once.
        self.once = name in ("bindfs", "rclone")
        # The bench goes on without a peer that does not work here.
        self.is_peer = name not in ("disk", "concord", "concord-uring", "before")
        self.store = os.path.join(base, name)
        self.path = os.path.join(base, name + ".mount") if command else self.store
        self.process = None
        self.seconds_to_mount = 0.0

    def start(self):
        os.makedirs(self.store, exist_ok=True)
        if not self.command:
            return
        os.makedirs(self.path, exist_ok=True)
        log = open(os.path.join(self.base, self.name + ".log"), "ab")
        began = time.monotonic()
        self.process = subprocess.Popen(
            self.command(self.store, self.path),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        log.close()
        while not mounted(self.path):
            if self.process.poll() is not None or time.monotonic() > began + 120:
                raise RuntimeError(f"{self.name} did not mount {self.path}:\n{self.said()}")
            time.sleep(0.001)
        os.listdir(self.path)
        self.seconds_to_mount = time.monotonic() - began

    def said(self):
        with open(os.path.join(self.base, self.name + ".log"), errors="replace") as log:
            return log.read()[-2000:]

    def resident_megabytes(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) / 1024
        return 0.0

    def stop(self):
        """Unmounts exactly this mount and ends exactly this process."""
        if self.command and mounted(self.path):
            if subprocess.run(["umount", self.path], stderr=subprocess.DEVNULL).returncode:
                subprocess.run(["umount", "--lazy", self.path])
        if not self.process:
            return
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            print(f"{self.name} did not end within a minute after unmounting, and was killed")
            self.process.kill()
            self.process.wait()
        self.process = None


def catalogue(tools, concord, before=None):
    """Returns the targets that are possible here: names, and how each is started."""
    mirror = os.path.join(tools, "mirror")
    known = {
        "disk": None,
        "mirror": lambda store, path: [mirror, store, path],
        "mirror-xattr": lambda store, path: [mirror, store, path, "xattr"],
    }
    # What writing costs that does not pass through the kernel to the file.
    known["mirror-nopass"] = lambda store, path: [mirror + "_uring", store, path, "nopass", "nouring"]
    if offers_uring():
        known["mirror-uring"] = lambda store, path: [mirror + "_uring", store, path]
    if concord:
        known["concord"] = lambda store, path: daemon(concord, store, path)
    if concord and offers_uring():
        known["concord-uring"] = lambda store, path: daemon(concord, store, path, "-o", "uring")
    if before:
        known["before"] = lambda store, path: daemon(before, store, path)
    if shutil.which("bindfs"):
        known["bindfs"] = lambda store, path: ["bindfs", "-f", store, path]
    if shutil.which("rclone"):
        known["rclone"] = lambda store, path: [
            "rclone", "mount", "--vfs-cache-mode", "writes", "--cache-dir", path + ".cache",
            store, path]
    return known


def daemon(concord, store, path, *options):
    return [concord, "mount", "--foreground", *options, "--store", store, path]


def offers_uring():
    try:
        with open("/sys/module/fuse/parameters/enable_uring") as parameter:
            return parameter.read().strip() == "Y"
    except OSError:
        return False


class Medium:
    """A directory for the targets: on the disk or, for root only, on a fresh tmpfs, ext4 or XFS.

    A used ext4 would distort the results: without a journal it skips inodes that were freed within the last five
    minutes, and looks at all of them for each new file.
    """

    def __init__(self, path, fresh=None):
        self.path, self.fresh = path, fresh if os.getuid() == 0 else None

    def __enter__(self):
        os.makedirs(self.path)
        if self.fresh == "tmpfs":
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=75%", "concord-bench", self.path], check=True)
        elif self.fresh:
            image = self.path + ".img"
            with open(image, "wb") as file:
                file.truncate(64 << 30)
            force = "-f" if self.fresh == "xfs" else "-F"
            subprocess.run(["mkfs." + self.fresh, "-q", force, image], check=True)
            subprocess.run(["mount", "-o", "loop", image, self.path], check=True)
            os.remove(image)  # Its space is freed when it is unmounted.
        return self

    def __exit__(self, *_):
        if self.fresh:
            for _ in range(50):
                if subprocess.run(
                        ["umount", self.path], stderr=subprocess.DEVNULL).returncode == 0:
                    break
                time.sleep(0.1)
            else:
                subprocess.run(["umount", "--lazy", self.path])
        shutil.rmtree(self.path)
