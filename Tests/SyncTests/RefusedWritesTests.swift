import Foundation
import Support
import Testing

/// The journal refuses what the sync engine writes, as on a full or damaged disk. When it accepts
/// it again, synchronisation continues by itself.
@Suite("Writes that the journal refuses", .serialized) struct RefusedWritesTests {
    /// Executes SQL in the journal of a device that runs.
    private func change(_ device: MountedVolume, _ sql: String) throws {
        try Command(
            "sqlite3", "-cmd", ".timeout 10000", "\(device.store)/journal.sqlite", sql
        ).succeed()
    }

    /// The arrivals are in the tree then, and the hub's state is still underway in the journal.
    @Test("the outcome of arrivals cannot be written to the journal") func outcome() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir d; echo 1 > d/old; echo 1 > d/moved; echo 1 > d/gone")
            try fleet.expectEqual()
            let refusal = """
                BEGIN SELECT RAISE(ABORT, 'a test refuses it') FROM mirror
                WHERE id = new.id AND state = 2 AND new.state <> 2; END;
                """
            try change(
                fleet.devices[1],
                """
                CREATE TRIGGER refuse_insert BEFORE INSERT ON mirror \(refusal)
                CREATE TRIGGER refuse_update BEFORE UPDATE ON mirror \(refusal)
                """)
            try fleet.shell(0, "echo 2 > d/old; mv d/moved d/there; rm d/gone; echo 1 > d/new")
            try wait(seconds: 60, for: "the refusal") {
                let hub = try fleet.report(fleet.devices[1]).hub
                return hub?.reason.contains("a test refuses it") == true ? true : nil
            }
            try change(
                fleet.devices[1], "DROP TRIGGER refuse_insert; DROP TRIGGER refuse_update")
            try fleet.expectEqual()
            #expect(try fleet.names(1, "d") == ["new", "old", "there"])
        }
    }

    @Test("one in eight writes of the hub's tables fails while both devices work")
    func refusals() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir 0 1; for i in {1..9}; do echo 1 > 0/$i; echo 1 > 1/$i; done")
            try fleet.expectEqual()
            let tables = ["mirror", "outbox", "sessions", "confirmations", "holdings"]
            var (making, ending) = ("", "")
            for table in tables {
                for deed in ["INSERT", "UPDATE", "DELETE"] {
                    making += """
                        CREATE TRIGGER refuse_\(table)_\(deed) BEFORE \(deed) ON \(table)
                        WHEN random() % 8 = 0
                        BEGIN SELECT RAISE(ABORT, 'a test refuses it'); END;
                        """
                    ending += "DROP TRIGGER refuse_\(table)_\(deed);"
                }
            }
            for device in fleet.devices { try change(device, making) }
            for round in 2...20 {
                for index in 0...1 {
                    try fleet.shell(
                        index,
                        """
                        cd \(index); echo \(round) > \(round % 5 + 1); echo \(round) > new\(round)
                        mv new\(round) there\(round); rm -f there\(round - 3)
                        mv 9 10; mv 8 9; mv 10 8; chmod \(600 + round % 7 * 10) 7
                        """)
                }
            }
            for device in fleet.devices {
                try wait(seconds: 60, for: "a refusal") {
                    device.said.contains("a test refuses it") ? true : nil
                }
            }
            for device in fleet.devices { try change(device, ending) }
            try fleet.expectEqual()
            for index in 0...1 {
                let names = try fleet.names(1 - index, "\(index)")
                #expect(names.count == 12)
                for name in names { #expect(try fleet.conflicts(0, "\(index)/\(name)").isEmpty) }
            }
        }
    }
}
