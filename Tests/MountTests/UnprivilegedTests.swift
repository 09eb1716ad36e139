import Foundation
import Glibc
import Support
import Testing

@Suite(
    "An ordinary user's mount", .serialized,
    .enabled(if: OrdinaryUser.obstacle == nil, "\(OrdinaryUser.obstacle ?? "")"))
struct UnprivilegedTests {
    @Test("files behave as on a disk, by any program")
    func files() throws {
        let said = try OrdinaryUser().succeed(
            """
            concord mount --store store mount
            cd mount; umask 027
            echo one > file; echo two >> file; cat file; stat -c '%U %a %s' file
            truncate -s 3 file; cat file; echo
            exec 3<>open; rm open; echo gone >&3; stat -Lc '%h %s' /proc/self/fd/3
            cat /proc/$$/fd/3; exec 3>&-
            exec 4<>closed; chmod 000 closed; echo through >&4; exec 4>&-
            chmod 600 closed; cat closed
            ln file hard; stat -c %h hard; mv file other; rm other; cat hard; echo
            mkdir d; mv d e; rmdir e; ln -s hard link; cat link; echo
            chown root hard 2>&1 | grep -o 'not permitted'
            mknod null c 1 3 2>&1 | grep -o 'not permitted'
            dd if=/dev/zero of=big bs=1M count=20 status=none; cmp -n 20971520 big /dev/zero; rm big
            cd ..; concord unmount mount; ls mount; cat store/tree/hard
            """)
        #expect(
            said.contains("passthrough off: only root may"), "\(said)")
        let lines = said.split(separator: "\n").dropFirst().map(String.init)
        #expect(
            lines == [
                "one", "two", "nobody 640 8", "one", "0 5", "gone", "through", "2", "one", "one",
                "not permitted", "not permitted", "one",
            ])
    }

    @Test("every save is a version")
    func versions() throws {
        let said = try OrdinaryUser().succeed(
            """
            concord mount --store store mount >&2
            cd mount
            echo 1 > letter; echo 2 > letter; sed -i s/2/3/ letter
            cp letter l; echo 4 > l; mv l letter
            fsctl wait --durable disk . ; cat .versions/letter/*; ls -A
            fsctl restore letter 1 >&2; cat letter; fsctl doctor . >&2
            getfattr --only-values -n user.concord.version letter; echo
            cd ..; concord unmount mount
            """)
        #expect(said == "1\n2\n3\n4\nletter\n1\n5\n")
    }

    @Test("what the daemon may not examine counts as unchanged, and not as deleted")
    func unreadable() throws {
        let said = try OrdinaryUser().succeed(
            """
            concord mount --store store mount >&2
            mkdir -p mount/d/e mount/P.rtfd
            for file in d/a d/b d/e/c P.rtfd/p closed other; do echo $file > mount/$file; done
            fsctl wait --durable disk mount
            concord unmount mount
            chmod 600 store/tree/d store/tree/P.rtfd
            chmod 000 store/tree/closed
            echo changed > store/tree/other
            concord mount --store store mount >&2
            fsctl wait --durable disk mount/other
            fsctl status mount | grep -o 'Problem .* cannot be examined' | sort
            fsctl doctor mount
            chmod 700 mount/d mount/P.rtfd mount/closed
            fsctl wait --durable disk mount
            cat mount/d/a mount/d/b mount/d/e/c mount/P.rtfd/p mount/closed mount/other
            fsctl versions --deleted mount | cut -c 1-19
            for file in d/a d/b d/e/c P.rtfd closed; do
                fsctl versions --json mount/$file | grep -o '"number":' | wc -l
            done
            concord unmount mount
            """)
        let examined = ["P.rtfd", "d/a", "d/b", "d/e/c", "closed"]
            .map { "note: \($0): \($0) is not examined: this user may not read it." }
        let lines =
            ["Problem      P.rtfd cannot be examined", "Problem      d cannot be examined"]
            + examined + ["mount is sound."]
            + ["d/a", "d/b", "d/e/c", "P.rtfd/p", "closed", "changed", "No deleted document"]
            + Array(repeating: "1", count: 5)
        #expect(said.split(separator: "\n").map(String.init) == lines, "\(said)")
    }

    @Test("the daemon is stopped for long: programs that wait get an error")
    func stoppedForLong() throws {
        let said = try OrdinaryUser().succeed(
            """
            concord mount --foreground -o suspend_timeout=1 --store store mount >&2 & daemon=$!
            until test -d mount/.versions; do sleep 0.02; done
            kill -STOP $daemon
            while grep -L '^State:.T' /proc/$daemon/task/*/status | grep -q .; do sleep 0.02; done
            stat mount/absent 2>&1 | grep -q 'No such file' || echo refused
            kill -CONT $daemon
            until test -d mount/.versions; do sleep 0.02; done
            echo one > mount/file; cat mount/file
            concord unmount mount; wait $daemon || echo "ended with $?"
            """, asRoot: "mount -t fusectl none /sys/fs/fuse/connections")
        #expect(said == "refused\none\n")
    }

    @Test("databases and mappings work, by two processes at once")
    func database() throws {
        let said = try OrdinaryUser().succeed(
            """
            concord mount --store store mount >&2
            cd mount
            sqlite3 data.db 'PRAGMA journal_mode=WAL; PRAGMA mmap_size=1000000; CREATE TABLE t (n);'
            fill() {
                for i in $(seq 50); do
                    echo ".timeout 20000"; echo "INSERT INTO t VALUES ($i);"
                done | sqlite3 data.db
            }
            fill & first=$!; fill; wait $first
            sqlite3 data.db 'SELECT count(*) FROM t; PRAGMA integrity_check;'
            cd ..; concord unmount mount
            """)
        #expect(said == "wal\n1000000\n100\nok\n")
    }

    @Test("a daemon that was killed is replaced, and nothing is lost")
    func killed() throws {
        let said = try OrdinaryUser().succeed(
            """
            concord mount --foreground --store store mount >&2 & daemon=$!
            until mountpoint -q mount; do sleep 0.05; done
            echo kept > mount/file; fsctl wait mount
            kill -9 $daemon; wait $daemon || true
            cat mount/file 2>&1 | grep -o 'not connected'
            concord mount --store store mount >&2
            cat mount/file; fusermount3 -u mount; ls mount
            """)
        #expect(said == "not connected\nkept\n")
    }

    @Test("other users, even root, have access only if fuse.conf allows it")
    func others() throws {
        let user = try OrdinaryUser()
        let refused = try user.run("concord mount --store store -o allow_other mount")
        #expect(refused.status != 0 && refused.errors.contains("user_allow_other"))
        let allowed = try OrdinaryUser().succeed(
            """
            concord mount --store store -o allow_other mount >&2
            echo shared > mount/file; chmod 644 mount/file; cat mount/file
            concord unmount mount
            """,
            asRoot:
                "echo user_allow_other > /mnt/fuse.conf; mount --bind /mnt/fuse.conf /etc/fuse.conf"
        )
        #expect(allowed == "shared\n")
    }
}
