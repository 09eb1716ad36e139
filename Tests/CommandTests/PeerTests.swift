import CLinux
import Control
import Foundation
import Logging
import Model
import Synchronization
import Testing

/// Which users may connect and what they may ask. A thread with their ids plays other users, which
/// only root can do.
@Suite struct PeerTests {
    /// Connects as another user and sends lines; returns the reply to each line.
    private func ask(_ lines: [String], as uid: UInt32, at path: String) -> [String] {
        let replies = Mutex<[String]>([])
        let thread = ThreadHandle("other user") {
            guard cl_thread_become(uid, uid) >= 0, let client = try? RawClient(path) else { return }
            for line in lines {
                client.send(line + "\n")
                replies.withLock { $0.append(client.receive(lines: 1)) }
            }
        }
        thread?.join()
        return replies.withLock { $0 }
    }

    @Test(.enabled(if: geteuid() == 0)) func othersMayAskWhatTheyCouldRead() throws {
        let daemon = try FakeDaemon(audience: .everyone) { peer, path, write in
            peer.uid == 1234 && path.first == Name("open") && !write
        }
        let replies = ask(
            [
                #"{"id":1,"verb":"status"}"#,
                #"{"id":2,"verb":"status","path":"open/a"}"#,
                #"{"id":3,"verb":"status","path":"secret/a"}"#,
                #"{"id":4,"verb":"forget","path":"open/a","number":1}"#,
                #"{"id":5,"verb":"stop"}"#,
                #"{"id":6,"verb":"versions","document":"00","path":"open/a"}"#,
                #"{"id":7,"verb":"status","path":"open/../secret/a"}"#,
                #"{"id":8,"verb":"extract","document":"00","number":1}"#,
                #"{"id":9,"verb":"contents","path":"secret/a","number":1}"#,
                #"{"id":10,"verb":"purge","path":"open/a"}"#,
            ], as: 1234, at: daemon.server.path)
        try #require(replies.count == 10)
        #expect(replies[0].contains(#""name":"1234""#))
        #expect(replies[1].contains(#""ok":true"#))
        for reply in [2, 3, 4, 5, 7, 8, 9].map({ replies[$0] }) {
            #expect(reply.contains(#""code":"denied""#))
        }
        #expect(replies[6].contains("not a path inside a volume"))
        // Only permitted requests reached the service.
        #expect(daemon.service.state.withLock { $0.asked.map(\.id) } == [1, 2])
    }

    @Test(.enabled(if: geteuid() == 0)) func aPrivateSocketIsOutOfReach() throws {
        let daemon = try FakeDaemon()
        #expect(ask([#"{"id":1,"verb":"status"}"#], as: 1234, at: daemon.server.path).isEmpty)
        var status = stat()
        #expect(stat(daemon.server.path, &status) == 0 && status.st_mode & 0o777 == 0o600)
        let directory = (daemon.server.path as NSString).deletingLastPathComponent
        #expect(stat(directory, &status) == 0 && status.st_mode & 0o777 == 0o700)
    }

    @Test(.enabled(if: geteuid() == 0)) func theKernelJudgesAsThatUser() throws {
        let scratch = try Scratch()
        chmod(scratch.path, 0o755)
        try scratch.directory("closed")
        for name in ["open.txt", "mine.txt", "group.txt", "closed/in.txt"] {
            try scratch.file(name)
        }
        chmod(scratch("open.txt"), 0o644)
        chmod(scratch("mine.txt"), 0o600)
        chown(scratch("mine.txt"), 1234, 0)
        chmod(scratch("group.txt"), 0o640)
        chown(scratch("group.txt"), 0, 777)
        chmod(scratch("closed/in.txt"), 0o644)
        chmod(scratch("closed"), 0o700)
        try FileManager.default.createSymbolicLink(
            atPath: scratch("out"), withDestinationPath: "/etc/passwd")
        let root = cl_open_path(scratch.path)
        defer { _ = cl_close(root) }
        func may(_ path: String, _ mode: Int32, groups: [gid_t] = []) -> Bool {
            cl_may_access(root, path, mode, 1234, 1234, groups, Int32(groups.count)) == 0
        }
        #expect(may("open.txt", R_OK) && !may("open.txt", W_OK))
        #expect(may("mine.txt", R_OK) && may("mine.txt", W_OK))
        #expect(!may("group.txt", R_OK) && may("group.txt", R_OK, groups: [5, 777]))
        #expect(!may("closed/in.txt", R_OK) && !may("none.txt", R_OK))
        #expect(may("", R_OK) && !may("../..", R_OK) && !may("/etc/passwd", R_OK))
        // The thread is root again.
        #expect(geteuid() == 0 && access(scratch("closed/in.txt"), W_OK) == 0)
    }

    @Test func aSocketThatAnswersIsSomebodys() throws {
        let daemon = try FakeDaemon()
        let directory = (daemon.server.path as NSString).deletingLastPathComponent
        let socket = try ControlSocket(directory: directory, audience: .owner)
        let error = #expect(throws: VolumeError.self) {
            try ControlServer(
                at: socket, service: FakeService(), log: Logger(label: "test")
            ) { _, _, _ in false }
        }
        #expect(error?.code == .busy)
        #expect(try daemon.client().ask(Request(.status), as: VolumeReport.self).volume == "v")
    }

    @Test func aDeadSocketIsReplaced() throws {
        let scratch = try Scratch()
        let directory = try scratch.directory("socket")
        let dead = cl_unix_listen(directory + "/control.sock", 1)
        #expect(dead >= 0)
        _ = cl_close(dead)
        let socket = try ControlSocket(directory: directory, audience: .owner)
        let server = try ControlServer(
            at: socket, service: FakeService(), log: Logger(label: "test")
        ) { _, _, _ in false }
        server.start()
        #expect(
            try ControlClient(socket: server.path).ask(Request(.status), as: VolumeReport.self)
                .volume == "v")
        server.stop()
    }

    @Test func aDirectoryThatOthersCanWriteIsRefused() throws {
        let scratch = try Scratch()
        chmod(try scratch.directory("socket"), 0o777)
        #expect(throws: VolumeError.self) {
            try ControlSocket(directory: scratch("socket"), audience: .owner)
        }
        try FileManager.default.createSymbolicLink(
            atPath: scratch("link"), withDestinationPath: "/tmp")
        #expect(throws: VolumeError.self) {
            try ControlSocket(directory: scratch("link"), audience: .owner)
        }
    }
}
