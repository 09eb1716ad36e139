import Foundation
import Glibc
import Support
import Testing

/// To whom files belong on the next machine, whose users have other ids.
@Suite(
    "Owners", .serialized,
    .enabled(if: geteuid() == 0, "only root can change owners and act as other users"))
struct OwnerTests {
    /// The users of the first machine, by whose ids scripts name them.
    private static let here = ["anna": 2001, "bert": 2002, "carl": 2003, "dora": 2004]
    /// Those of the second one, which does not know Carl.
    private static let there = ["anna": 3001, "bert": 3002, "dora": 3004]

    private let here: TestAccounts
    private let there: TestAccounts

    init() throws {
        here = try TestAccounts(OwnerTests.here)
        there = try TestAccounts(OwnerTests.there)
    }

    private func withTwo(_ body: (Fleet) throws -> Void) throws {
        try Fleet.with(0) { fleet in
            try fleet.join(environment: here.environment)
            try fleet.join(environment: there.environment)
            // Bert's directory, in which everybody may create files.
            try script(fleet, 0, "mkdir bert; chown 2002:2002 bert; chmod 777 bert")
            try body(fleet)
        }
    }

    /// Runs a script as root, in which `as UID COMMAND…` acts as another user.
    @discardableResult
    private func script(_ fleet: Fleet, _ index: Int, _ text: String) throws -> String {
        var command = Command(
            "/bin/bash", "-ec",
            """
            # Others come as far as the volume.
            chmod 711 ..
            as() {
                local user=$1; shift
                setpriv --reuid=$user --regid=$user --clear-groups "$@"
            }
            \(text)
            """)
        command.directory = fleet.devices[index].path
        return try command.succeed()
    }

    /// The owner, group and mode of each of the paths.
    private func owners(_ fleet: Fleet, _ index: Int, _ paths: String) throws -> [String] {
        try script(fleet, index, "stat -c '%u:%g %a' \(paths)").split(separator: "\n")
            .map(String.init)
    }

    private func canRead(_ fleet: Fleet, _ index: Int, _ path: String, as user: Int) throws -> Bool
    {
        try script(fleet, index, "as \(user) cat \(path) 2>/dev/null >&2 && echo yes || echo no")
            == "yes\n"
    }

    @Test("a private file or directory in another user's directory stays its owner's")
    func privacy() throws {
        try withTwo { fleet in
            try script(
                fleet, 0,
                """
                as 2001 sh -c 'umask 077; cd bert; echo secret > diary
                    mkdir box; umask 022; echo in > box/in; echo open > open'
                """)
            try fleet.settle()
            #expect(
                try owners(fleet, 1, "bert bert/diary bert/box bert/box/in bert/open") == [
                    "3002:3002 777", "3001:3001 600", "3001:3001 700", "3001:3001 644",
                    "3001:3001 644",
                ])
            for path in ["bert/diary", "bert/box/in"] {
                #expect(try canRead(fleet, 1, path, as: 3001))
                #expect(try !canRead(fleet, 1, path, as: 3002))
            }
            #expect(try canRead(fleet, 1, "bert/open", as: 3002))
            try script(fleet, 0, "as 2001 chmod 600 bert/open")
            try fleet.settle()
            #expect(try owners(fleet, 1, "bert/open") == ["3001:3001 600"])
            // Contents of either device leave the owner as it is.
            try script(fleet, 0, "as 2001 sh -c 'echo more >> bert/diary'")
            try fleet.settle()
            try script(fleet, 1, "as 3001 sh -c 'echo even more >> bert/open'")
            try fleet.settle()
            #expect(
                try owners(fleet, 1, "bert/diary bert/open").allSatisfy { $0 == "3001:3001 600" })
            #expect(
                try owners(fleet, 0, "bert/diary bert/open").allSatisfy { $0 == "2001:2001 600" })
        }
    }

    @Test("the owner stays when a file is moved into another user's directory")
    func moves() throws {
        try withTwo { fleet in
            try script(
                fleet, 0,
                """
                umask 077; mkdir anna; chown 2001:2001 anna; echo root > roots
                as 2001 sh -c 'echo moved > anna/moved; echo other > anna/other'
                """)
            try fleet.settle()
            #expect(
                try owners(fleet, 1, "anna anna/moved roots") == [
                    "3001:3001 700", "3001:3001 600", "0:0 600",
                ])
            try script(fleet, 0, "as 2001 mv anna/moved bert; mv roots bert")
            try fleet.settle()
            #expect(
                try owners(fleet, 1, "bert/moved bert/roots") == [
                    "3001:3001 600", "65534:65534 600",
                ])
            #expect(try owners(fleet, 0, "bert/moved bert/roots") == ["2001:2001 600", "0:0 600"])
            try script(fleet, 0, "mv bert/roots .; chown 2002:2002 anna/other")
            try fleet.settle()
            #expect(
                try owners(fleet, 1, "roots anna/other") == ["0:0 600", "3002:3002 600"])
        }
    }

    @Test("a file of an unknown user, of the system or of root belongs to nobody elsewhere")
    func unknown() throws {
        try withTwo { fleet in
            try script(
                fleet, 0,
                """
                umask 077; cd bert
                for user in 2003 2009 1 0; do
                    as $user sh -c "umask 077; echo $user > $user"
                done
                """)
            try fleet.settle()
            let paths = "bert/2003 bert/2009 bert/1 bert/0"
            for state in try owners(fleet, 1, paths) { #expect(state == "65534:65534 600") }
            #expect(try !canRead(fleet, 1, "bert/2003", as: 3002))
            // The device does not say anything about an owner that it does not know.
            try script(fleet, 1, "for f in \(paths); do echo more >> $f; chmod 640 $f; done")
            try fleet.settle()
            try fleet.devices[1].remount()
            try fleet.settle()
            #expect(
                try owners(fleet, 0, paths) == [
                    "2003:2003 640", "2009:2009 640", "1:1 640", "0:0 640",
                ])
            #expect(fleet.text(0, "bert/2003") == "2003\nmore\n")
            // Root can give it to somebody.
            try script(fleet, 1, "chown 3001:3001 bert/2003")
            try fleet.settle()
            #expect(try owners(fleet, 0, "bert/2003") == ["2001:2001 640"])
        }
    }

    @Test("changing the owner of a directory does not change what is in it")
    func directories() throws {
        try withTwo { fleet in
            try script(
                fleet, 0,
                "umask 077; mkdir -p one/in all/in; for d in one all; do echo > $d/in/f; done")
            try fleet.settle()
            try script(fleet, 0, "chown 2001:2001 one; chown -R 2001:2001 all")
            try fleet.settle()
            let paths = "one one/in one/in/f all all/in all/in/f"
            #expect(
                try owners(fleet, 0, paths) == [
                    "2001:2001 700", "0:0 700", "0:0 600", "2001:2001 700", "2001:2001 700",
                    "2001:2001 600",
                ])
            #expect(
                try owners(fleet, 1, paths) == [
                    "3001:3001 700", "65534:65534 700", "0:0 600", "3001:3001 700",
                    "3001:3001 700", "3001:3001 600",
                ])
            try script(fleet, 0, "chown 0:0 one; chown -R 2002:2002 all")
            try fleet.settle()
            #expect(
                try owners(fleet, 1, paths) == [
                    "0:0 700", "0:0 700", "0:0 600", "3002:3002 700", "3002:3002 700",
                    "3002:3002 600",
                ])
        }
    }

    @Test("a package and everything in it have one owner")
    func packages() throws {
        try withTwo { fleet in
            try script(
                fleet, 0,
                "as 2001 sh -c 'umask 077; mkdir -p bert/p.pages/in; echo 1 > bert/p.pages/in/f'")
            try fleet.settle()
            let paths = "bert/p.pages bert/p.pages/in bert/p.pages/in/f"
            let modes = ["700", "700", "600"]
            #expect(try owners(fleet, 1, paths) == modes.map { "3001:3001 \($0)" })
            try script(fleet, 0, "chown -R 2002:2002 bert/p.pages")
            try fleet.settle()
            #expect(try owners(fleet, 1, paths) == modes.map { "3002:3002 \($0)" })
            try script(fleet, 0, "as 2002 sh -c 'echo 2 > bert/p.pages/in/f'")
            try fleet.settle()
            #expect(fleet.text(1, "bert/p.pages/in/f") == "2\n")
            // Contents and owner together.
            try fleet.offline(0)
            try script(
                fleet, 0, "echo 3 > bert/p.pages/in/f; chown -R 2001:2001 bert/p.pages")
            try fleet.online(0)
            try fleet.settle()
            #expect(fleet.text(1, "bert/p.pages/in/f") == "3\n")
            #expect(try owners(fleet, 1, paths) == modes.map { "3001:3001 \($0)" })
        }
    }

    @Test("what somebody keeps private in another user's package stays private elsewhere")
    func partsOfOthers() throws {
        try withTwo { fleet in
            try script(
                fleet, 0,
                """
                as 2002 sh -c 'umask 022; mkdir -m 777 bert/p.pages; echo 1 > bert/p.pages/text'
                as 2001 sh -c 'cd bert/p.pages; umask 022; echo open > open
                    umask 077; echo secret > diary; mkdir box; umask 022; echo secret > box/in'
                """)
            try fleet.settle()
            let parts = ["", "/text", "/open", "/diary", "/box", "/box/in"]
            let paths = parts.map { "bert/p.pages\($0)" }.joined(separator: " ")
            let here = [
                "2002:2002 777", "2002:2002 644", "2001:2001 644", "2001:2001 600",
                "2001:2001 700", "2001:2001 644",
            ]
            let there = [
                "3002:3002 777", "3002:3002 644", "3002:3002 644", "65534:65534 600",
                "65534:65534 700", "65534:65534 644",
            ]
            #expect(try owners(fleet, 0, paths) == here)
            #expect(try owners(fleet, 1, paths) == there)
            /// What the package's owner finds of the secrets on the second device.
            func found(by user: Int = 3002) throws -> String {
                try script(
                    fleet, 1,
                    """
                    as \(user) sh -c 'cat bert/p.pages/diary bert/p.pages/box/in
                        ls bert/p.pages/box; cat bert/.versions/p.pages/*/diary' 2>/dev/null || true
                    as \(user) fsctl show bert/p.pages 1 2>&1 | grep -c secret || true
                    """)
            }
            #expect(try found() == "0\n")
            // Bert's save on the second device changes nothing about it, on either device.
            try script(fleet, 1, "as 3002 sh -c 'echo 2 >> bert/p.pages/text'")
            try fleet.settle()
            #expect(fleet.text(0, "bert/p.pages/text") == "1\n2\n")
            #expect(try owners(fleet, 0, paths) == here)
            #expect(try owners(fleet, 1, paths) == there)
            #expect(try found() == "0\n")
            // Nor do another owner of the package, and a new save.
            try script(fleet, 0, "chown 2004:2004 bert/p.pages; echo 3 >> bert/p.pages/text")
            try fleet.settle()
            try script(fleet, 0, "as 2001 sh -c 'echo 4 >> bert/p.pages/diary'")
            try fleet.settle()
            #expect(fleet.text(1, "bert/p.pages/diary") == "secret\n4\n")
            let present = try owners(fleet, 1, paths)
            #expect(present.first == "3004:3004 777")
            #expect(Array(present.dropFirst(3)) == Array(there.dropFirst(3)))
            #expect(try found(by: 3004) == "0\n")
        }
    }

    @Test("an owner that changed with the contents, or in the tree of an unmounted volume")
    func unmounted() throws {
        try withTwo { fleet in
            try script(fleet, 0, "umask 077; for f in a b c; do echo 1 > bert/$f; done")
            try fleet.settle()
            try fleet.offline(0)
            try script(fleet, 0, "echo 2 > bert/a; chown 2001:2001 bert/a")
            try fleet.devices[0].unmount()
            try Command(
                "/bin/sh", "-ec", "cd $0/bert; chown 2001:2001 b; echo 3 > c; chown 2003:2003 c",
                fleet.devices[0].tree
            ).succeed()
            try fleet.devices[0].mount()
            try fleet.online(0)
            try fleet.settle()
            #expect(
                try owners(fleet, 1, "bert/a bert/b bert/c") == [
                    "3001:3001 600", "3001:3001 600", "65534:65534 600",
                ])
            #expect(fleet.text(1, "bert/a") == "2\n" && fleet.text(1, "bert/c") == "3\n")
        }
    }

    @Test("a tree that is rebuilt from the journal keeps its owners")
    func rebuilt() throws {
        try withTwo { fleet in
            try script(
                fleet, 0,
                """
                as 2001 sh -c 'umask 077; cd bert; echo 1 > f; mkdir d; echo 1 > d/f'
                """)
            try fleet.settle()
            try fleet.devices[0].unmount()
            try FileManager.default.removeItem(atPath: fleet.devices[0].tree)
            try fleet.devices[0].mount("--rebuild")
            try fleet.settle()
            let paths = "bert/f bert/d bert/d/f"
            let modes = ["600", "700", "600"]
            #expect(try owners(fleet, 0, paths) == modes.map { "2001:2001 \($0)" })
            #expect(try owners(fleet, 1, paths) == modes.map { "3001:3001 \($0)" })
        }
    }

    @Test(
        "a device without root in between keeps what it does not know",
        .enabled(if: OrdinaryUser.obstacle == nil, "\(OrdinaryUser.obstacle ?? "")"))
    func unprivileged() throws {
        try Fleet.with(0) { fleet in
            try fleet.join(environment: here.environment)
            try script(
                fleet, 0,
                """
                mkdir bert; chown 2002:2002 bert; chmod 777 bert
                as 2001 sh -c 'umask 077; echo 1 > bert/diary; mkdir bert/box; echo 1 > bert/box/f'
                as 2003 sh -c 'umask 077; echo 1 > bert/carls'
                """)
            try fleet.settle()
            let said = try OrdinaryUser().succeed(
                """
                concord mount --store store -o name=team mount >&2
                fsctl signin \(fleet.hub.address) --code \(try fleet.hub.invite()) \\
                    --device laptop --at mount >&2
                cd mount
                for file in bert/diary bert/box/f bert/carls; do
                    until [ -e $file ]; do sleep 0.1; done
                done
                cat bert/diary bert/box/f
                echo 2 >> bert/diary; chmod 750 bert/box; mv bert/carls .; echo new > bert/new
                sed -i s/1/2/ bert/box/f
                fsctl wait --durable hub . >&2
                cd ..; concord unmount mount >&2; concord mount --store store mount >&2
                echo 3 >> mount/bert/diary; fsctl wait --durable hub mount >&2
                concord unmount mount >&2
                """)
            #expect(said == "1\n1\n")
            try fleet.join(environment: there.environment)
            try fleet.settle()
            #expect(fleet.text(0, "bert/diary") == "1\n2\n3\n")
            let paths = "bert/diary bert/box bert/box/f carls bert/new"
            #expect(
                try owners(fleet, 0, paths) == [
                    "2001:2001 600", "2001:2001 750", "2001:2001 600", "2003:2003 600",
                    "2002:2002 644",
                ])
            #expect(
                try owners(fleet, 1, paths) == [
                    "3001:3001 600", "3001:3001 750", "3001:3001 600", "65534:65534 600",
                    "3002:3002 644",
                ])
        }
    }

    /// Which of the users a device shows a document's version in conflict.
    private func readersOfConflict(
        _ fleet: Fleet, _ index: Int, _ path: String, users: String
    ) throws -> String {
        try script(
            fleet, index,
            """
            for user in \(users); do
                as $user \(Programs.fsctl) versions \(path) --json | grep -q '"kind":"conflict"' \
                    && echo $user
            done; true
            """
        ).split(separator: "\n").joined(separator: " ")
    }

    @Test("a version in conflict has the rights of its save, whatever the document has by now")
    func conflicts() throws {
        try withTwo { fleet in
            try script(
                fleet, 0,
                """
                for name in given opened common; do echo 1 > $name; chown 2001:2001 $name; done
                chmod 600 given opened
                """)
            try fleet.settle()
            try fleet.offline(0)
            try script(fleet, 0, "for name in given opened common; do echo Anna > $name; done")
            try script(
                fleet, 1,
                """
                chown 3002:3002 given; chmod 644 given opened
                for name in given opened common; do echo later > $name; done
                \(Programs.fsctl) wait --durable hub .
                """)
            try fleet.online(0)
            try fleet.settle()
            for (name, readers) in [
                ("given", ["2001", "3001"]), ("opened", ["2001", "3001"]),
                ("common", ["2001 2002 2004", "3001 3002 3004"]),
            ] {
                #expect(try fleet.conflicts(1, name) == ["Anna\n"])
                for (index, users) in ["2001 2002 2004", "3001 3002 3004"].enumerated() {
                    let found = try readersOfConflict(fleet, index, name, users: users)
                    #expect(found == readers[index], "\(name)")
                }
            }
        }
    }

    @Test("a conflict of one person is that person's, whatever the person is called")
    func conflictOfOnePerson() throws {
        try withTwo { fleet in
            try script(fleet, 0, "chown 2001:2001 .; echo 1 > plan; chown 2001:2001 plan")
            try script(fleet, 1, "chown 3002:3002 .")
            try script(fleet, 0, "chmod 600 plan")
            try fleet.settle()
            try fleet.offline(0)
            try script(fleet, 0, "echo here > plan")
            try script(fleet, 1, "echo there > plan; \(Programs.fsctl) wait --durable hub .")
            try fleet.online(0)
            try fleet.settle()
            #expect(try readersOfConflict(fleet, 0, "plan", users: "2001 2002 2004") == "2001")
            #expect(try readersOfConflict(fleet, 1, "plan", users: "3001 3002 3004") == "3002")
        }
    }

    @Test("a volume of one person has no owners, whatever the person is called")
    func onePerson() throws {
        try Fleet.with(0) { fleet in
            try fleet.join(environment: here.environment)
            try fleet.join(environment: there.environment)
            // The person is Anna on one machine, and Bert on the other.
            try script(fleet, 0, "chown 2001:2001 .")
            try script(fleet, 1, "chown 3002:3002 .")
            try script(
                fleet, 0,
                """
                as 2001 sh -c 'umask 077; mkdir d; echo 1 > d/f
                    mkdir p.pages; echo 1 > p.pages/f'
                """)
            try fleet.settle()
            try script(fleet, 1, "as 3002 sh -c 'echo 2 >> d/f; echo 1 > d/g; mv p.pages d'")
            try fleet.settle()
            let paths = "d d/f d/g d/p.pages d/p.pages/f"
            for state in try owners(fleet, 0, paths) { #expect(state.hasPrefix("2001:2001 ")) }
            for state in try owners(fleet, 1, paths) { #expect(state.hasPrefix("3002:3002 ")) }
            for device in fleet.devices {
                #expect(
                    try Command(
                        "sqlite3", "\(device.store)/journal.sqlite",
                        "SELECT count(*) FROM items WHERE attributes IS NOT NULL"
                    ).succeed() == "0\n")
            }
            // One change is one operation, and nothing comes back.
            let before = try fleet.report(fleet.devices[0]).hub?.head ?? 0
            try script(fleet, 0, "as 2001 chmod 640 d/f")
            try fleet.settle()
            #expect(try fleet.report(fleet.devices[0]).hub?.head == before + 1)
        }
    }
}
