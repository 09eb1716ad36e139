import Support
import Testing

/// Files and directories whose owner may not write them, on devices of users without privileges.
@Suite(
    "Read-only files of an ordinary user", .serialized,
    .enabled(if: OrdinaryUser.obstacle == nil, "\(OrdinaryUser.obstacle ?? "")"))
struct ReadOnlyFileTests {
    private func mount(_ fleet: Fleet) throws -> String {
        """
        concord mount --store store -o name=team mount >&2
        trap 'concord unmount mount >&2' EXIT
        fsctl signin \(fleet.hub.address) --code \(try fleet.hub.invite()) \\
            --device laptop --volume team --at mount >&2
        come() {
            for file; do until [ -e "mount/$file" ]; do sleep 0.1; done; done
            fsctl wait --durable hub mount >&2
        }
        """
    }

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
                \(try mount(fleet))
                come large small dir/inner p.rtfd/one
                ( cd mount
                cat small dir/inner; tail -n 1 large; tail -n 1 p.rtfd/one
                fsctl evict large small dir/inner >&2
                [ $(stat -c %b large) -lt 1000 ] && echo evicted
                fsctl download large >&2
                fsctl offline >&2; md5sum < large; fsctl online >&2
                cat small dir/inner
                stat -c '%n %a' large small dir dir/inner p.rtfd/one
                chmod u+w small; echo more >> small )
                fsctl wait --durable hub mount >&2
                """)
            let digest = try fleet.attempt(0, "md5sum < large").output
            #expect(
                said == """
                    small
                    inner
                    1000000
                    9
                    evicted
                    \(digest)small
                    inner
                    large 444
                    small 400
                    dir 555
                    dir/inner 444
                    p.rtfd/one 444

                    """)
            try fleet.settle()
            #expect(fleet.text(0, "small") == "small\nmore\n")
        }
    }

    @Test("what arrives in a read-only directory waits until the directory can be written")
    func directories() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(0, "mkdir dir; echo 1 > dir/a; echo 1 > beside; chmod 555 dir")
            try fleet.settle()
            let user = try OrdinaryUser()
            _ = try user.succeed("\(try mount(fleet))\ncome dir/a beside")
            // Root may write to any directory.
            try fleet.shell(0, "echo 2 > dir/b; echo 2 > beside")
            try fleet.settle()
            let said = try user.succeed(
                """
                concord mount --store store mount >&2
                trap 'concord unmount mount >&2' EXIT
                until fsctl status mount | grep -o 'dir is read-only.*'; do sleep 0.1; done
                until [ $(cat mount/beside) = 2 ]; do sleep 0.1; done
                chmod u+w mount/dir
                until [ -e mount/dir/b ]; do sleep 0.1; done
                cat mount/dir/b
                fsctl wait --durable hub mount >&2
                """)
            #expect(said.hasSuffix("\n2\n"), "\(said)")
            #expect(said.contains("dir is read-only for its owner"), "\(said)")
        }
    }
}
