"""Where the hubs of a benchmark keep what they have: a PostgreSQL server, an S3 server, and a delay in front of both."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WEED = os.path.join(HERE, "..", "..", ".build", "seaweedfs", "bin", "weed")
KEY, SECRET = "BENCHKEY", "secret of the benchmark"


class Missing(Exception):
    """A program that a place needs is not installed."""


def ports(count):
    """Returns free ports of 127.0.0.1."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


def wait(what, is_ready, seconds=60):
    end = time.monotonic() + seconds
    while not is_ready():
        if time.monotonic() > end:
            raise RuntimeError(what + " did not start")
        time.sleep(0.05)


def seconds_used(pids):
    """Returns the time of the processor that these processes have used."""
    ticks = 0
    for pid in pids:
        try:
            with open("/proc/%d/stat" % pid) as file:
                fields = file.read().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(word) for word in file.read().split()]


class Postgres:
    """A PostgreSQL server with Debian's settings but for the memory of a small server, run by an ordinary user."""

    def __init__(self, base):
        versions = os.listdir("/usr/lib/postgresql") if os.path.isdir("/usr/lib/postgresql") else []
        if not versions:
            raise Missing("PostgreSQL is not installed (make test-deps)")
        self.bin = "/usr/lib/postgresql/%s/bin/" % max(versions, key=int)
        self.directory = os.path.join(base, "postgres")
        os.mkdir(self.directory, 0o755)
        self.user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
        if self.user:
            shutil.chown(self.directory, "nobody", "nogroup")
        data = os.path.join(self.directory, "data")
        subprocess.run(
            self.user + [self.bin + "initdb", "-D", data, "-U", "concord", "-A", "trust", "-E", "UTF8",
                         "--locale", "C.UTF-8"], check=True, capture_output=True)
        self.log = open(os.path.join(base, "postgres.log"), "wb")
        self.process = subprocess.Popen(
            self.user + [self.bin + "postgres", "-D", data, "-c", "listen_addresses=", "-c",
                         "unix_socket_directories=" + self.directory, "-c", "shared_buffers=256MB",
                         "-c", "max_connections=200"],
            stdout=self.log, stderr=self.log, cwd="/")
        ready = [self.bin + "pg_isready", "-q", "-h", self.directory]
        wait("PostgreSQL", lambda: subprocess.run(ready).returncode == 0)

    @property
    def socket(self):
        return os.path.join(self.directory, ".s.PGSQL.5432")

    def make(self, name):
        subprocess.run([self.bin + "createdb", "-h", self.directory, "-U", "concord", name], check=True)

    def url(self, name, port=None):
        place = "host=127.0.0.1&port=%d" % port if port else "host=" + self.directory
        return "postgres://concord@/%s?%s" % (name, place)

    def used(self):
        """The server adds the time of connections that have ended to its own."""
        with open("/proc/%d/stat" % self.process.pid) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ended = (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
        return ended + seconds_used([self.process.pid] + children(self.process.pid))

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.log.close()


class Bucket:
    """A SeaweedFS server with an S3 interface."""

    def __init__(self, base):
        if not os.access(WEED, os.X_OK):
            raise Missing("SeaweedFS is not installed (make test-deps)")
        self.directory = os.path.join(base, "s3")
        os.mkdir(self.directory)
        names = ["s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc",
                 "filer.port", "filer.port.grpc"]
        found = ports(len(names))
        self.port, self.master = found[0], "127.0.0.1:%d.%d" % (found[2], found[3])
        identities = os.path.join(base, "identities")
        with open(identities, "w") as file:
            file.write('{"identities":[{"name":"hub","credentials":[{"accessKey":"%s","secretKey":"%s"}],'
                       '"actions":["Admin","Read","List","Tagging","Write"]}]}' % (KEY, SECRET))
        self.keys = os.path.join(base, "keys")
        with open(os.open(self.keys, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write("AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\n" % (KEY, SECRET))
        self.log = open(os.path.join(base, "s3.log"), "wb")
        self.process = subprocess.Popen(
            [WEED, "-logdir=" + base, "server", "-dir=" + self.directory, "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
             "-filer", "-s3", "-s3.config=" + identities, "-s3.port.iceberg=0", "-s3.port.lance=0",
             "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=0"]
            + ["-%s=%d" % pair for pair in zip(names, found)],
            stdout=self.log, stderr=self.log, cwd=base, start_new_session=True)
        wait("SeaweedFS", self.is_ready)

    def is_ready(self):
        said = subprocess.run([WEED, "shell", "-master=" + self.master], input="s3.bucket.create -name bench\n",
                              capture_output=True, text=True)
        return "created bucket" in said.stdout or "already exists" in said.stdout + said.stderr

    def url(self, prefix, port=None):
        return "s3://bench/%s?endpoint=http://127.0.0.1:%d&credentials=%s" % (prefix, port or self.port, self.keys)

    def used(self):
        return seconds_used([self.process.pid] + children(self.process.pid))

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


class Servers:
    """Both servers, which are started when they are first needed."""

    def __init__(self, base, tools):
        self.base, self.tools, self.count = base, tools, 0
        self.postgres = self.bucket = self.delay = self.failure = None

    def start(self):
        if self.failure:
            raise Missing(self.failure)
        if self.bucket:
            return
        try:
            self.postgres = Postgres(self.base)
            self.bucket = Bucket(self.base)
        except (Missing, OSError, RuntimeError, subprocess.SubprocessError) as error:
            self.failure = str(error)
            raise Missing(self.failure) from error

    def place(self, delay):
        """Returns the options of a hub with a new database and a new prefix."""
        self.start()
        self.count += 1
        name = "hub%d" % self.count
        self.postgres.make(name)
        database_port = s3_port = None
        if delay:
            database_port, s3_port = self.delayed(delay)
        return ["--ledger", self.postgres.url(name, database_port), "--blobs", self.bucket.url(name, s3_port)]

    def delayed(self, microseconds):
        """Starts the proxy if it does not run, and returns the ports that lead through it."""
        if not self.delay:
            self.delay = subprocess.Popen(
                [os.path.join(self.tools, "delay"), str(microseconds), self.postgres.socket, str(self.bucket.port)],
                stdout=subprocess.PIPE, text=True)
            self.delayed_ports = [int(self.delay.stdout.readline()) for _ in range(2)]
        return self.delayed_ports

    def used(self):
        """Returns the time of the processor that the database, the bucket and the proxy have used."""
        if not self.bucket:
            return 0, 0, 0
        return self.postgres.used(), self.bucket.used(), seconds_used([self.delay.pid]) if self.delay else 0

    def stop(self):
        if self.delay:
            self.delay.kill()
            self.delay.wait()
        for one in (self.bucket, self.postgres):
            if one:
                one.stop()


class Hubs:
    """Processes of one hub, with the given options, on directories of their own."""

    def __init__(self, program, base, options, count, users):
        self.program, self.options = program, options
        self.base = tempfile.mkdtemp(prefix="hub.", dir=base)
        self.data = os.path.join(self.base, "data0")
        for user in users:
            self.run("user", "add", user)
        self.processes, self.ports, self.logs = [], [], []
        for number in range(count):
            self.start(number)

    def start(self, number):
        log = open(os.path.join(self.base, "log%d" % number), "wb")
        self.logs.append(log)
        process = subprocess.Popen(
            [self.program, "hub", "--data", os.path.join(self.base, "data%d" % number), "--listen", "127.0.0.1:0"]
            + self.options, stdout=log, stderr=log)
        self.processes.append(process)
        mark = "the hub listens on "

        def said():
            with open(log.name) as file:
                return file.read()

        def is_ready():
            if process.poll() is not None:
                raise RuntimeError("a hub ended: " + said())
            return mark in said()

        wait("a hub", is_ready)
        self.ports.append(int(said().split(mark)[1].split()[0].split(":")[-1]))

    def run(self, *words):
        return subprocess.run(
            [self.program, "hub", *words, "--data", self.data, *self.options], check=True, capture_output=True, text=True)

    def address(self, number=0):
        return "http://127.0.0.1:%d" % self.ports[number]

    def invite(self):
        """A command to which the name of a user is added."""
        return [self.program, "hub", "invite", "--data", self.data, *self.options]

    def memory(self, field="VmRSS"):
        found = []
        for process in self.processes:
            with open("/proc/%d/status" % process.pid) as status:
                found.append(next(int(line.split()[1]) << 10 for line in status if line.startswith(field)))
        return found

    def used(self):
        return seconds_used([process.pid for process in self.processes])

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process, log in zip(self.processes, self.logs):
            process.wait()
            log.close()
        shutil.rmtree(self.base)
