import Support
import Testing

/// Files and directories whose owner may not write them, on devices of users without privileges.
@Suite(
    "Read-only files of an ordinary user", .serialized,
    .enabled(if: OrdinaryUser.obstacle == nil, "\(OrdinaryUser.obstacle ?? "")"))
struct ReadOnlyFileTests {
    @Test("they are downloaded, evicted and changed like others")
    func contents() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(
                0,
                """
                mkdir dir p.rtfd
                seq 1000000 > large; echo small > small; echo inner > dir/inner; seq 9 > p.rtfd/one
                chmod 444 large dir/inner p.rtfd/one; chmod 400 small; chmod 555 dir
                """)
            try fleet.settle()
            let said = try OrdinaryUser().succeed(
                """
                concord mount --store store -o name=team mount >&2
                fsctl signin \(fleet.hub.address) --code \(try fleet.hub.invite()) \\
                    --device laptop --at mount >&2
                cd mount
                for file in large small dir/inner p.rtfd/one; do
                    until [ -e $file ]; do sleep 0.1; done
                done
                tail -n 1 large; cat small dir/inner; tail -n 1 p.rtfd/one
                fsctl wait --durable hub . >&2
                fsctl evict large small dir/inner
                stat -c '%n %a' large small dir dir/inner
                fsctl status large | grep State
                fsctl download large >&2; fsctl status large | grep State
                cat small dir/inner
                stat -c '%n %a' large small dir dir/inner p.rtfd/one
                fsctl evict small; chmod u+w small; echo more >> small; cat small
                fsctl wait --durable hub . >&2
                cd ..; concord unmount mount >&2
                """)
            print(said)
            try fleet.settle()
            #expect(fleet.text(0, "small") == "small\nmore\n")
        }
    }

    @Test("what other devices change in a read-only directory arrives")
    func directories() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(
                0, "mkdir -p dir/sub; echo 1 > dir/a; echo 1 > dir/sub/b; chmod 555 dir/sub dir")
            try fleet.settle()
            let user = try OrdinaryUser()
            let script = """
                concord mount --store store -o name=team mount >&2
                trap 'concord unmount mount >&2' EXIT
                """
            let first = try user.succeed(
                """
                \(script)
                fsctl signin \(fleet.hub.address) --code \(try fleet.hub.invite()) \\
                    --device laptop --at mount >&2
                until [ -e mount/dir/sub/b ]; do sleep 0.1; done
                fsctl wait --durable hub mount >&2
                """)
            #expect(first == "")
            try fleet.shell(
                0,
                """
                echo 2 > dir/a; echo 2 > dir/sub/new; rm dir/sub/b; mkdir dir/later
                echo 2 > dir/later/c; mv dir/a dir/moved
                """)
            try fleet.settle()
            let second = try user.succeed(
                """
                \(script)
                for try in $(seq 100); do
                    [ -e mount/dir/later/c -a ! -e mount/dir/sub/b ] && break; sleep 0.1
                done
                fsctl status mount | grep -i problem || true
                cd mount; find dir -printf '%p %m\\n' | sort; cat dir/moved; cd ..
                """)
            print(second)
        }
    }
}
