"""Desktops without a screen, in the Debian that `Tests/Desktop/root` has made, and a hub with
mounted devices for the people who work there.

Programs run there by chroot. The daemons run outside, and mount into it. Everything that is made
lies in one directory of the Debian's /srv or in its /tmp, and all processes have the directory's
name in their environment; so at the end nothing is left.
"""
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# The user ada of the Debian, under whom all programs of a desktop run.
USER = 1000


def until(what, condition, seconds=120):
    """Waits until the condition holds, and returns its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"within {seconds} s this did not happen: {what}"
        time.sleep(0.1)
    return value


class Debian:
    """The root of a Debian, with its /proc mounted, and a directory for what a test makes."""

    def __init__(self, root):
        self.root = os.path.realpath(root)
        if self.root == "/":
            raise SystemExit("This machine's own root would be emptied.")
        self.lock = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"Another test uses {self.root}.") from None
        self.proc = os.path.join(self.root, "proc")
        self.scratch = tempfile.mkdtemp(prefix="desktop.", dir=os.path.join(self.root, "srv"))
        os.chmod(self.scratch, 0o755)
        self.tmp = os.path.join(self.root, "tmp")
        self.processes = []

    def start(self):
        subprocess.run(["mount", "-t", "proc", "proc", self.proc], check=True)

    def inside(self, path):
        """The path as programs in the Debian see it."""
        return "/" + os.path.relpath(path, self.root)

    def spawn(self, command, environment, **more):
        """Starts a program of the user's in the Debian."""
        marked = dict(environment, CONCORD_DESKTOP=self.scratch)
        process = subprocess.Popen(
            [shutil.which("chroot"), "--userspec", f"{USER}:{USER}", self.root, *command],
            env=marked, start_new_session=True, **more)
        self.processes.append(process)
        return process

    def marked(self):
        """The processes of this test, also those that its programs have started."""
        mark = f"CONCORD_DESKTOP={self.scratch}\0".encode()
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if mark in file.read() + b"\0":
                        found.append(int(name))
            except OSError:
                continue
        return found

    def end_processes(self):
        # Programs end when their X server does. What goes on nevertheless is killed.
        for process in reversed(self.processes):
            process.terminate()
        end = time.monotonic() + 20
        while left := self.marked():
            for process in self.processes:
                process.poll()
            if time.monotonic() > end:
                for number in left:
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.1)
        for process in self.processes:
            process.wait(60)

    def close(self):
        if os.path.ismount(self.proc):
            subprocess.run(["umount", self.proc], check=True)
        with open("/proc/self/mountinfo") as table:
            paths = [line.split()[4] for line in table]
        left = [path for path in paths if path.startswith(self.root + "/")]
        if left:
            raise SystemExit(f"mounts are left: {left}")
        for path in (self.scratch, self.tmp):
            shutil.rmtree(path)
        os.mkdir(self.tmp)
        os.chmod(self.tmp, 0o1777)


class Desktop:
    """The session of a person: an X server, a bus, a window manager, and what the windows say."""

    def __init__(self, debian, home):
        self.debian, self.home = debian, home
        runtime = os.path.join(home, "run")
        os.mkdir(runtime, 0o700)
        os.chown(runtime, USER, USER)
        runtime = debian.inside(runtime)
        self.environment = {
            "HOME": debian.inside(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": runtime, "GTK_THEME": "Adwaita",
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus"}
        self.log = open(os.path.join(home, "log"), "ab")
        server = self.run(
            "Xvfb", "-displayfd", "1", "-screen", "0", "1024x700x24", "-nolisten", "tcp",
            stdout=subprocess.PIPE)
        self.environment["DISPLAY"] = ":" + self.line(server)
        bus = self.run(
            "dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1",
            "--address=" + self.environment["DBUS_SESSION_BUS_ADDRESS"], stdout=subprocess.PIPE)
        self.line(bus)
        self.run("openbox")
        shutil.copy(os.path.join(HERE, "accessible.py"), home)
        self.accessible = self.run(
            "python3", debian.inside(os.path.join(home, "accessible.py")),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, *command, **more):
        options = {"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": self.log} | more
        return self.debian.spawn(command, self.environment, **options)

    @staticmethod
    def line(process, seconds=120):
        """The next line of the program's output."""
        text = b""
        while not text.endswith(b"\n"):
            assert select.select([process.stdout], [], [], seconds)[0], "no answer of a program"
            read = os.read(process.stdout.fileno(), 1 << 20)
            assert read, f"{process.args} ended"
            text += read
        return text.decode().strip()

    def ask(self, verb, argument=None):
        self.accessible.stdin.write(json.dumps({verb: argument}).encode() + b"\n")
        self.accessible.stdin.flush()
        return json.loads(self.line(self.accessible))

    def look(self):
        """All that is showing, as [role, name, text, states]."""
        return self.ask("look")

    def texts(self, *roles):
        """The names and texts of what is showing and has one of these roles."""
        found = [row for row in self.look() if row[0] in roles]
        return [text for _, name, content, _ in found for text in {name, content} if text]

    def press(self, name):
        """Presses a button or an entry of a menu, as soon as there is one."""
        until(f"“{name}” can be pressed", lambda: self.ask("press", name) is True)

    def xdotool(self, *words):
        done = self.run("xdotool", *words).wait(60)
        assert done == 0, f"xdotool {words} failed"

    def key(self, *keys):
        self.xdotool("key", *keys)

    def type(self, text):
        self.xdotool("type", "--delay", "30", text)

    def picture(self, path):
        """A picture of the window that is used now, with few colours, so that it is small."""
        there = os.path.join(self.home, "picture.png")
        shot = ('exec import -window "$(xdotool getactivewindow)" -frame '
                '+dither -colors 32 "PNG8:$0"')
        assert self.run("sh", "-c", shot, self.debian.inside(there)).wait(60) == 0, "no picture"
        shutil.copyfile(there, path)


class Hub:
    """A hub, and the devices that belong to it."""

    def __init__(self, debian, programs):
        self.debian, self.programs = debian, os.path.abspath(programs)
        self.data = os.path.join(debian.scratch, "hub")
        self.mounts, self.process = [], None

    def run(self, program, *words, **more):
        done = subprocess.run(
            [os.path.join(self.programs, program), *words], text=True, timeout=120,
            capture_output=True, **more)
        assert done.returncode == 0, f"{program} {' '.join(words)}: {done.stderr}{done.stdout}"
        return done.stdout

    def start(self, *users):
        for user in users:
            self.run("concord", "hub", "user", "add", user, "--data", self.data)
        log = os.path.join(self.debian.scratch, "hub.log")
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                [os.path.join(self.programs, "concord"), "hub", "--data", self.data,
                 "--listen", "127.0.0.1:0"], stdout=output, stderr=output)

        def address():
            with open(log) as file:
                return [line.split()[-1] for line in file if "listens on http" in line]
        self.url = until("the hub listens", address)[0]

    def device(self, user, name, path, *more):
        """Mounts a device of this user's at the path, which its desktop can use."""
        os.mkdir(path)
        self.run("concord", "mount", path, "--store", path + ".store")
        self.mounts.append(path)
        code = self.run("concord", "hub", "invite", user, "--data", self.data).split()[-1]
        self.run("fsctl", "signin", self.url, "--volume", "Documents", "--device", name,
                 "--code", "-", "--at", path, *more, input=code + "\n")
        os.chown(path, USER, USER)

    def ask(self, *words):
        return json.loads(self.run("fsctl", *words, "--json"))

    def close(self):
        # What cannot be unmounted is told by the check of all mounts.
        for path in self.mounts:
            subprocess.run([os.path.join(self.programs, "concord"), "unmount", path])
        if self.process:
            self.process.terminate()
            assert self.process.wait(60) == 0, "the hub did not end in order"
