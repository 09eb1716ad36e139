import CLinux
import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// Locks between processes (traps 17 and 18). The kernel handles them on our inodes.
@Suite("Locks")
struct LockTests {
    /// Takes each kind of lock in turn and adds 1 to a number in the file by reading and writing
    /// it; any errno ends it. Waiting is interrupted by a timer all the time.
    private static let contender = """
        import fcntl, os, signal, struct, sys
        path, rounds = sys.argv[1], int(sys.argv[2])
        signal.signal(signal.SIGALRM, lambda *a: None)
        signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
        OFD_SETLKW, SETLKW = 38, fcntl.F_SETLKW
        def whole(kind): return struct.pack('hhqqi', kind, 0, 0, 0, 0)
        def posix(fd, kind): fcntl.fcntl(fd, SETLKW, whole(kind))
        def ofd(fd, kind): fcntl.fcntl(fd, OFD_SETLKW, whole(kind))
        def flock(fd, kind): fcntl.flock(fd, {1: fcntl.LOCK_EX, 2: fcntl.LOCK_UN}[kind])
        def add(lock, offset):
            fd = os.open(path, os.O_RDWR)
            lock(fd, 1)
            number = int(os.pread(fd, 10, offset)) + 1
            os.stat(path); os.close(os.open(path + str(os.getpid()), os.O_CREAT, 0o600))
            os.unlink(path + str(os.getpid()))
            os.pwrite(fd, b'%010d' % number, offset)
            if number % 2: lock(fd, 2)
            os.close(fd)
        for round in range(rounds):
            for index, lock in enumerate([posix, ofd, flock]): add(lock, 10 * index)
        signal.setitimer(signal.ITIMER_REAL, 0)
        """

    @Test(
        "every process gets the lock, signals or not, and no number is lost (trap 17)",
        arguments: DataPath.allCases)
    func contention(_ way: DataPath) throws {
        try way.with { volume in
            let path = "\(volume.path)/counters.swp"
            try Data(String(repeating: "0", count: 30).utf8).write(to: URL(filePath: path))
            let script = """
                for i in 1 2 3 4 5 6 7 8; do
                    /usr/bin/python3 -c "$1" "$2" 20 & children="$children $!"
                done
                for child in $children; do wait $child || exit 1; done
                """
            try Command("sh", "-c", script, "-", Self.contender, path).succeed()
            let numbers = try String(contentsOfFile: path, encoding: .utf8)
            #expect(numbers == String(repeating: "0000000160", count: 3))
        }
    }

    @Test(
        "a lock is free at once after its owner's close or death, even with open handles (trap 18)",
        arguments: DataPath.allCases)
    func release(_ way: DataPath) throws {
        try way.with { volume in
            let path = "\(volume.path)/locked.swp"
            let bystander = try OpenFile.creating(path)
            let first = try OpenFile(path, O_RDWR)
            let second = try OpenFile(path, O_RDWR)
            try call(flock(first.descriptor, LOCK_EX))
            #expect(flock(second.descriptor, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK)
            first.close()
            #expect(flock(second.descriptor, LOCK_EX | LOCK_NB) == 0)
            try call(flock(second.descriptor, LOCK_UN))

            let third = try OpenFile(path, O_RDWR)
            #expect(openLock(third, F_WRLCK) == 0)
            #expect(openLock(second, F_WRLCK) == EAGAIN)
            #expect(holder(second) == F_WRLCK)
            third.close()
            #expect(holder(second) == F_UNLCK)
            #expect(openLock(second, F_WRLCK) == 0)
            second.close()

            let script = "exec 9<>\"$1\"; flock -x 9; kill -9 $$"
            #expect(try Command("sh", "-c", script, "-", path).run().status == 137)
            #expect(flock(bystander.descriptor, LOCK_EX | LOCK_NB) == 0, "its owner was killed")
        }
    }

    /// F_OFD_SETLK of the whole file; returns the errno, or 0.
    private func openLock(_ file: OpenFile, _ kind: Int32) -> Int32 {
        var lock = flock()
        lock.l_type = Int16(kind)
        return fcntl(file.descriptor, 37, &lock) == 0 ? 0 : errno
    }

    /// F_OFD_GETLK: the lock that prevents a write lock.
    private func holder(_ file: OpenFile) -> Int32 {
        var lock = flock()
        lock.l_type = Int16(F_WRLCK)
        return fcntl(file.descriptor, 36, &lock) == 0 ? Int32(lock.l_type) : -errno
    }

    @Test("a deadlock is an error, and only a deadlock is")
    func deadlock() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/two.swp"
            try Data("ab".utf8).write(to: URL(filePath: path))
            let script = """
                import fcntl, os, sys, time, errno
                f = open(sys.argv[1], 'r+b', buffering=0)
                mine, other = int(sys.argv[2]), 1 - int(sys.argv[2])
                fcntl.lockf(f, fcntl.LOCK_EX, 1, mine)
                open('%s.%d' % (sys.argv[1], mine), 'w').close()
                while not os.path.exists('%s.%d' % (sys.argv[1], other)): time.sleep(0.01)
                try:
                    fcntl.lockf(f, fcntl.LOCK_EX, 1, other)
                    print('locked')
                except OSError as error: print(error.errno)
                """
            let both = """
                /usr/bin/python3 -c "$1" "$2" 0 & /usr/bin/python3 -c "$1" "$2" 1; wait
                """
            let said = try Command("sh", "-c", both, "-", script, path).succeed()
            #expect(said.split(separator: "\n").sorted() == ["\(EDEADLK)", "locked"])
        }
    }
}
