import Foundation
import Glibc
import Support
import Testing

/// Where a device keeps its secrets.
@Suite("Secrets", .serialized) struct SecretTests {
    /// Returns the files of a store, without the tree, that contain a token.
    private func filesWithTokens(_ store: String) throws -> [String] {
        let command = Command(
            "/bin/sh", "-c",
            "cd '\(store)' && find . -path ./tree -prune -o -type f -print0 "
                + "| xargs -0 grep -lE 'cct_[0-9a-f]{64}' | sort")
        return try command.run().output.split(separator: "\n").map(String.init)
    }

    /// Returns what other users could open in a store.
    private func open(_ store: String) throws -> String {
        try Command(
            "/bin/sh", "-c",
            "cd '\(store)' && find . -path ./tree -prune -o -perm /077 -print | sort"
        ).succeed()
    }

    @Test("a store is private even in an open directory, and the token has its own file")
    func privateStore() throws {
        let home = try TemporaryDirectory("secrets")
        let store = "\(home.path)/store"
        // This is the result of a umask of 0.
        try Command(
            "/bin/sh", "-ec",
            "mkdir '\(store)'; chmod 777 '\(store)'; setfacl -d -m u::rwx,g::rwx,o::rwx '\(store)'"
        ).succeed()
        try Fleet.with(0) { fleet in
            let device = try fleet.join(store: store)
            try fleet.shell(0, "echo x > a; echo y > a")
            try fleet.settle()
            #expect(try open(store) == "")
            #expect(try filesWithTokens(store) == ["./credentials"])
            try device.remount()
            try fleet.settle()
            #expect(try filesWithTokens(store) == ["./credentials"])
        }
    }

    @Test("an old journal's secrets are moved to their file, and nothing of them remains")
    func moved() throws {
        try Fleet.with(1) { fleet in
            let device = fleet.devices[0]
            try fleet.shell(0, "echo x > a")
            try fleet.settle()
            try device.unmount()
            try Command(
                "/bin/bash", "-ec",
                """
                cd '\(device.store)'; read -r device token keys < credentials; rm credentials
                chmod 755 . chunks; chmod 644 journal.sqlite
                sqlite3 journal.sqlite "INSERT INTO meta VALUES
                    ('hub.token', '$token'), ('hub.keys', '$keys')"
                """
            ).succeed()
            #expect(try filesWithTokens(device.store) == ["./journal.sqlite"])
            try device.mount()
            try fleet.shell(0, "echo y > b")
            try fleet.settle()
            #expect(try open(device.store) == "")
            #expect(try filesWithTokens(device.store) == ["./credentials"])
            try device.remount()
            try fleet.settle()
            #expect(try filesWithTokens(device.store) == ["./credentials"])
            // The device reports missing credentials, and a new code signs it in again.
            try device.unmount()
            unlink("\(device.store)/credentials")
            try device.mount()
            #expect(device.said.contains("credentials"))
            try fleet.signIn(device)
            try fleet.settle()
            try Programs.fsctl("signout", "--at", device.path).succeed()
            #expect(try filesWithTokens(device.store) == [])
        }
    }

    @Test("a token that is some days old is renewed, and the device continues")
    func renewed() throws {
        try Fleet.with(1) { fleet in
            let device = fleet.devices[0]
            let path = "\(device.store)/credentials"
            let before = try String(contentsOfFile: path, encoding: .utf8)
            try device.unmount()
            try Command("touch", "-d", "8 days ago", path).succeed()
            try device.mount()
            try wait(for: "another token") {
                try String(contentsOfFile: path, encoding: .utf8) == before ? nil : true
            }
            try fleet.shell(0, "echo x > a")
            try fleet.settle()
            try device.remount()
            try fleet.shell(0, "echo y > b")
            try fleet.settle()
        }
    }

    @Test("a code is read from standard input or a file, so no process list shows it")
    func codes() throws {
        try Fleet.with(0) { fleet in
            let words = ["'\(Programs.fsctl)' signin", fleet.hub.address, "--at"]
            for way in ["--code - < code", "--code-file code", "< code"] {
                let device = try MountedVolume(options: ["name=team"])
                defer { device.cleanUp() }
                let home = try TemporaryDirectory("code")
                try fleet.hub.invite().write(
                    toFile: "\(home.path)/code", atomically: true, encoding: .utf8)
                let line = (words + ["'\(device.path)'", way]).joined(separator: " ")
                let said = try Command("/bin/sh", "-ec", "cd '\(home.path)'; \(line)").succeed()
                #expect(said.contains("Signed in"), "\(way)")
                try device.unmount()
            }
        }
        // A hub that does not answer.
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var closed = false
        defer { if !closed { close(listener) } }
        #expect(listen(listener, 8) == 0)
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutableBytes(of: &address) {
            _ = getsockname(
                listener, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), &size)
        }
        try MountedVolume.with { volume in
            let asking = try Beside(
                "signin", "http://127.0.0.1:\(UInt16(bigEndian: address.sin_port))", "--code",
                "ABCDE-FGHJK", "--at", volume.path)
            try asking.wait(for: "list of processes")
            let line = try Data(contentsOf: URL(filePath: "/proc/\(asking.pid)/cmdline"))
            let text = String(decoding: line, as: UTF8.self)
            #expect(text.contains("--code") && text.contains("xxxxx") && !text.contains("ABCDE"))
            close(listener)
            closed = true
            #expect(try asking.waitForEnd() != 0)
        }
    }
}
