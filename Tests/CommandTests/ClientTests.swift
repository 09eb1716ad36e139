import CLinux
import Control
import Foundation
import Model
import Testing

@Suite struct ClientTests {
    @Test func progressThenTheAnswer() throws {
        let daemon = try FakeDaemon()
        var steps: [String] = []
        let report = try daemon.client().ask(Request(.doctor), as: DoctorReport.self) {
            steps.append($0.text)
        }
        #expect(steps == ["step 1", "step 2", "step 3"])
        #expect(!report.sound && report.findings.map(\.subject) == ["a"])
    }

    @Test func anErrorArrivesAsItWasThrown() throws {
        let daemon = try FakeDaemon()
        let client = try daemon.client()
        #expect(throws: VolumeError(.notFound, "no document a")) {
            try client.ask(Request(.versions, path: [Name("a")]), as: HistoryReport.self)
        }
        withExtendedLifetime(daemon) {}
    }

    @Test func nobodyThere() throws {
        let scratch = try Scratch()
        let error = #expect(throws: VolumeError.self) {
            try ControlClient(socket: scratch("control.sock"))
        }
        #expect(error?.code == .notFound && error?.message.contains("is not running") == true)
        #expect(throws: VolumeError.self) {
            try ControlClient(socket: "/" + String(repeating: "x", count: 200))
        }
    }

    /// A server that takes one connection and handles it as the test says.
    private func serving(
        _ behave: @escaping @Sendable (Int32) -> Void, _ body: (ControlClient) throws -> Void
    ) throws {
        let scratch = try Scratch()
        let listener = cl_unix_listen(scratch("s"), 1)
        try #require(listener >= 0)
        let thread = ThreadHandle("one client") {
            var (descriptor, wanted, ready) = (listener, Int16(POLLIN), Int16(0))
            guard cl_poll(&descriptor, &wanted, &ready, 1, 20_000) > 0 else { return }
            let socket = cl_accept(listener)
            behave(socket)
            _ = cl_close(socket)
        }
        try body(ControlClient(socket: scratch("s")))
        thread?.join()
        _ = cl_close(listener)
    }

    @Test func aDaemonThatDies() throws {
        try serving(Behaviour.hangsUp) { client in
            let error = #expect(throws: VolumeError.self) {
                try client.ask(Request(.status), as: VolumeReport.self)
            }
            #expect(error?.message.contains("stopped before it answered") == true)
        }
    }

    @Test func aDaemonThatHangs() throws {
        try serving(Behaviour.saysNothing) { client in
            #expect(
                throws: VolumeError(.timeout, "the volume's daemon did not answer within 0.2 s")
            ) {
                try client.ask(Request(.status), as: VolumeReport.self, timeoutSeconds: 0.2)
            }
            shutdown(client.descriptor, Int32(SHUT_RDWR))
        }
    }

    @Test func answersToOthersArePassedOver() throws {
        let lines =
            #"{"id":99,"ok":true,"result":{}}"# + "\n" + #"{"id":1,"ok":true,"result":{}}"# + "\n"
        try serving(Behaviour.says(lines)) { client in
            #expect(throws: Never.self) { try client.ask(Request(.stop), as: Nothing.self) }
        }
    }

    @Test func garbageIsAnError() throws {
        try serving(Behaviour.says("garbage\n")) { client in
            #expect(throws: VolumeError.self) { try client.ask(Request(.stop), as: Nothing.self) }
        }
    }
}

/// Errors that a daemon may make on a connection.
private enum Behaviour {
    static let hangsUp: @Sendable (Int32) -> Void = { _ in }

    static let saysNothing: @Sendable (Int32) -> Void = { socket in
        var (descriptor, wanted, ready) = (socket, Int16(0), Int16(0))
        _ = cl_poll(&descriptor, &wanted, &ready, 1, 20_000)
    }

    static func says(_ text: String) -> @Sendable (Int32) -> Void {
        { socket in _ = cl_send(socket, text, text.utf8.count) }
    }
}
