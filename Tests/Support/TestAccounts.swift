import Foundation

/// User accounts that exist for a daemon only, not on this machine: a library that is preloaded
/// into the daemon (Tests/Accounts/accounts.c) finds them.
package final class TestAccounts {
    /// The environment of the daemon.
    package let environment: [String: String]
    private let home: TemporaryDirectory

    /// - Parameter ids: Each account's user id, which is its group's id, too.
    package init(_ ids: [String: Int]) throws {
        home = try TemporaryDirectory("accounts")
        let source = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Accounts/accounts.c").path
        let library = "\(home.path)/accounts.so"
        try Command("gcc", "-shared", "-fPIC", "-O1", "-o", library, source).succeed()
        let file = "\(home.path)/passwd"
        let system = ["root": 0, "daemon": 1, "nobody": 65534]
        let lines = ids.merging(system) { mine, _ in mine }.map { name, id in
            "\(name):x:\(id):\(id)::/nonexistent:/usr/sbin/nologin\n"
        }
        try lines.joined().write(toFile: file, atomically: true, encoding: .utf8)
        environment = ["LD_PRELOAD": library, "CONCORD_TEST_ACCOUNTS": file]
    }
}
