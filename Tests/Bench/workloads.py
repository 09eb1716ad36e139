"""The workloads that run on each target. Each returns {what: time}; lower is better."""

import os
import shutil
import sqlite3
import subprocess
import tarfile
import time


def quiet(*command, **options):
    """Runs a command. If it fails, the exception says what it printed last."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, errors="replace", **options)
    if done.returncode:
        last = (done.stderr.strip() or "it printed nothing").splitlines()[-1]
        raise RuntimeError(f"{' '.join(command[:3])} exited with {done.returncode}: {last}")


def figures(text):
    words = text.split()
    return dict(zip(words[::2], map(float, words[1::2])))


def timed(action):
    """The time of a call in milliseconds."""
    began = time.monotonic()
    action()
    return (time.monotonic() - began) * 1e3


class Names:
    """Operations on names and small files, by one program and by two at once."""

    def __init__(self, tools, count):
        self.program, self.count = os.path.join(tools, "names"), count

    def run(self, path):
        command = [self.program, path, str(self.count), "1"]
        alone = figures(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        command[2] = str(max(1, self.count // 5))
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        texts = [process.communicate()[0] for process in both]
        if any(process.returncode for process in both):
            raise RuntimeError(f"names failed in {path}")
        pair = [figures(text) for text in texts]
        for what in ("create", "open-read-close", "rename"):
            alone[f"two at once: {what}"] = sum(result[what] for result in pair) / 2
        return alone


class Data:
    """The bytes of one large file. On the bare disk the first overwriting comes with a durable copy of the old bytes,
    because a mount that keeps versions has to keep them where the file system cannot clone."""

    def __init__(self, tools, megabytes, settle):
        self.program, self.megabytes, self.settle = os.path.join(tools, "data"), str(megabytes), settle

    def run(self, path):
        result = {}
        for part in ("new", "overwrite" if os.path.ismount(path) else "keep", "rest"):
            quiet("sync")
            # The version of the file is recorded meanwhile.
            self.settle(10)
            command = [self.program, path, self.megabytes, part]
            result.update(figures(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        return result


class Git:
    """Clone, status and checkout of a repository of `files` files, which is made once beside the targets."""

    def __init__(self, scratch, files=2000):
        self.origin = os.path.join(scratch, "origin")
        self.environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        self.git("init", "-q", "-b", "main", self.origin)
        for commit in range(2):
            for number in range(files):
                if commit and number % 4:
                    continue
                name = os.path.join(self.origin, f"module{number % 40}", f"source{number}.txt")
                os.makedirs(os.path.dirname(name), exist_ok=True)
                with open(name, "w") as file:
                    file.writelines(f"{commit} {number} {line * number}\n" for line in range(60))
            self.git("-C", self.origin, "add", "-A")
            self.git("-C", self.origin, "-c", "user.name=b", "-c", "user.email=b@localhost",
                     "commit", "-q", "-m", f"commit {commit}")

    def git(self, *arguments):
        quiet("git", "-c", "gc.auto=0", *arguments, env=self.environment)

    def run(self, path):
        copy = os.path.join(path, "clone")
        result = {
            "git clone": timed(lambda: self.git("clone", "-q", "--no-local", self.origin, copy)),
            "git status": timed(lambda: self.git("-C", copy, "status")),
            "git checkout": timed(lambda: self.git("-C", copy, "checkout", "-q", "HEAD~1")),
        }
        self.git("-C", copy, "fsck")
        result["rm -r of the clone"] = timed(lambda: shutil.rmtree(copy))
        return result


class Programs:
    """What people do with a source tree: this machine's C headers, at most `files` of them, and a small C project."""

    WHAT = ("git clone", "git status", "git checkout", "rm -r of the clone", "tar -x", "cp -a", "find", "grep -r",
            "make -j2", "rm -r")
    SOURCES = 100

    def __init__(self, scratch, files=3000):
        self.archive, self.files = os.path.join(scratch, "tree.tar"), 0
        with tarfile.open(self.archive, "w") as archive:
            for directory, _, names in os.walk("/usr/include"):
                for name in names:
                    source = os.path.join(directory, name)
                    if self.files < files and os.path.isfile(source):
                        archive.add(os.path.realpath(source), source.lstrip("/"))
                        self.files += 1

    def run(self, path):
        tree, copy, project = (os.path.join(path, name) for name in ("unpacked", "copy", "project"))
        for directory in (tree, project):
            os.mkdir(directory)
        self.write_project(project)
        return {
            "tar -x": timed(lambda: quiet("tar", "-xf", self.archive, "-C", tree)),
            "cp -a": timed(lambda: quiet("cp", "-a", tree, copy)),
            "find": timed(lambda: quiet("find", copy, "-newer", self.archive)),
            # `grep` exits with 1, because nothing matches.
            "grep -r": timed(lambda: subprocess.run(
                ["grep", "-r", "no header has this", copy], stdout=subprocess.DEVNULL)),
            "make -j2": timed(lambda: quiet("make", "-s", "-j2", "-C", project)),
            "rm -r": timed(lambda: quiet("rm", "-r", tree, copy, project)),
        }

    def write_project(self, project):
        for number in range(self.SOURCES):
            with open(os.path.join(project, f"part{number}.c"), "w") as file:
                file.write(f"int part{number}(int x) {{ return x + {number}; }}\n")
        objects = " ".join(f"part{number}.o" for number in range(self.SOURCES))
        with open(os.path.join(project, "Makefile"), "w") as file:
            file.write(f"parts.a: {objects}\n\tar rc $@ $^\n")


class Sqlite:
    """Inserts in transactions of their own, in both journal modes; checks the database, too."""

    INSERTS = {"WAL": 1000, "DELETE": 150}

    def run(self, path):
        result = {}
        for mode, count in self.INSERTS.items():
            name = os.path.join(path, f"bench-{mode}.db")
            database = sqlite3.connect(name, isolation_level=None)
            database.execute(f"PRAGMA journal_mode={mode}")
            database.execute("CREATE TABLE row (id INTEGER PRIMARY KEY, text TEXT)")

            def insert():
                for number in range(count):
                    database.execute("INSERT INTO row (text) VALUES (?)", (f"row {number}" * 20,))
            result[f"sqlite insert, {mode}"] = timed(insert) * 1e3 / count
            sound = database.execute("PRAGMA integrity_check").fetchone()[0]
            if sound != "ok" or database.execute("SELECT count(*) FROM row").fetchone()[0] != count:
                raise RuntimeError(f"{name}: {sound}")
            database.close()
            os.unlink(name)
        return result
