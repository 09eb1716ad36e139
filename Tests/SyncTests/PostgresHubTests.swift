import Foundation
import Support
import Testing

/// Real devices and a hub whose ledger is in PostgreSQL.
@Suite(
    "A hub on PostgreSQL", .serialized,
    .enabled(if: PostgresServer.obstacle == nil, "\(PostgresServer.obstacle ?? "")"))
struct PostgresHubTests {
    @Test("devices wait while the database is away, and nothing is lost")
    func outage() throws {
        let server = try PostgresServer()
        try server.make("hub")
        let hub = try HubProcess(database: server.url("hub"))
        try Fleet.with(2, hub: hub) { fleet in
            try fleet.put(0, "before", "1")
            try fleet.settle()
            #expect(fleet.text(1, "before") == "1")
            for round in 0..<2 {
                for index in 0..<20 { try fleet.put(0, "during-\(round)-\(index)", "x") }
                server.stop()
                try fleet.put(0, "before", "changed \(round)")
                try fleet.put(1, "other-\(round)", "y")
                try wait(for: "the hub to notice; it said: \(hub.said)") {
                    hub.said.contains("until this is over") ? true : nil
                }
                try server.start()
                try fleet.settle()
                try fleet.expectEqual()
                #expect(fleet.text(1, "before") == "changed \(round)")
            }
            #expect(try fleet.names(1).count == 43)
            // The hub notices that with its next periodic work.
            try wait(for: "the hub to say that it is over; it said: \(hub.said)") {
                hub.said.contains("requests are answered again") ? true : nil
            }
        }
    }

    @Test(
        "the commands of a hub work on the database",
        .enabled(if: HubProcess.isEmbedded, "The environment puts blobs elsewhere."))
    func commands() throws {
        let url = try PostgresServer.database(for: "commands")
        let hub = try HubProcess(database: url)
        try hub.run("user", "add", "anna", "--quota", "1000")
        #expect(try hub.run("user", "list") == "ann\t0\t-\nanna\t0\t1000\n")
        #expect(try hub.run("user", "quota", "anna", "2k").contains("of 2000 bytes"))
        #expect(try hub.invite().count == 23)
        #expect(try hub.run("devices") == "")
        #expect(try hub.run("check").contains("sound: 0 volumes"))
        #expect(try hub.run("gc", "--grace", "0").contains("condemned 0 chunks"))
        #expect(try hub.run("restored").contains("0 volumes begin new epochs"))
        try hub.run("user", "remove", "anna")
        let scratch = try TemporaryDirectory("backup")
        try hub.run("backup", "\(scratch.path)/backup")
        let copied = try Command(
            Programs.concord, arguments: ["hub", "check", "--data", "\(scratch.path)/backup"]
        ).run()
        #expect(copied.output.contains("sound: 0 volumes"), "\(copied)")
        // The directory has no ledger of its own, and this database has none for it.
        let other = try PostgresServer.database(for: "another")
        for database in [nil, other] {
            var arguments = ["hub", "check", "--data", hub.data]
            if let database { arguments += ["--ledger", database] }
            let lost = try Command(Programs.concord, arguments: arguments).run()
            #expect(lost.status == 7 && lost.errors.contains("Nothing was changed"), "\(lost)")
        }
        try hub.stop()
        let secret = "postgres://ann:hunter2@localhost/hub"
        let shown = try Command(
            Programs.concord, "hub", "check", "--data", hub.data, "--ledger", secret
        ).run()
        #expect(shown.status == 5 && shown.errors.contains("PGPASSFILE"))
        #expect(!shown.errors.contains("hunter2"))
    }

    @Test(
        "a hub with its ledger in SQLite is not started on a database",
        .enabled(if: HubProcess.isEmbedded, "The environment puts hubs elsewhere."))
    func otherLedger() throws {
        let hub = try HubProcess()
        try hub.stop()
        let url = try PostgresServer.database(for: hub.data)
        let refused = try Command(
            Programs.concord, "hub", "check", "--data", hub.data, "--ledger", url
        ).run()
        #expect(refused.status == 5 && refused.errors.contains("SQLite"))
        try hub.check()
    }
}
