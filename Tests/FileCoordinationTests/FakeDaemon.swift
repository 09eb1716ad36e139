import Control
import Foundation
import Logging
import Model
import Support
import Synchronization

@testable import FileCoordination

/// The daemon's end of the socket, without a volume. It grants every claim at once, unless a test
/// says otherwise, and records the requests.
final class FakeDesk: ControlService {
    typealias Script = @Sendable (Control.Request, Connection) -> Bool

    struct State {
        var asked: [Control.Request] = []
        var client: Connection?
        var script: Script?
        /// The requests that are not about claims, and their answers.
        var looked: [Control.Request] = []
        var answers: (@Sendable (Control.Request) -> Answer?)?
    }
    let state = Mutex(State())

    func answer(
        _ request: Control.Request, from peer: Peer, progress: @escaping (Control.Progress) -> Bool
    )
        throws(VolumeError) -> Answer
    {
        let answers = state.withLock { state in
            state.looked.append(request)
            return state.answers
        }
        if let answer = answers?(request) { return answer }
        throw VolumeError(.invalid, "this is about turns")
    }

    func hear(_ request: Control.Request, from client: Connection) throws(VolumeError) {
        let script = state.withLock { state in
            state.asked.append(request)
            state.client = client
            return state.script
        }
        if script?(request, client) == true { return }
        grant(request, client)
    }

    func grant(_ request: Control.Request, _ client: Connection, at paths: [String]? = nil) {
        guard request.verb == "claim" else { return reply(request, Nothing(), client) }
        let report = GrantReport(
            paths: paths?.map { RawText($0) } ?? request.access!.map(\.path))
        reply(request, report, client)
    }

    func reply(_ request: Control.Request, _ value: some Codable & Sendable, _ client: Connection) {
        client.push(json(Reply(id: request.id, result: value)) + [0x0A])
    }

    func refuse(_ request: Control.Request, _ code: VolumeError.Code, _ client: Connection) {
        let error = VolumeError(code, "because it is \(code)")
        client.push(json(Reply<Nothing>(id: request.id, error: error)) + [0x0A])
    }

    /// Sends a message to the presenter that was registered last.
    func push(_ kind: PresenterMessage.Kind, _ change: (inout PresenterMessage) -> Void = { _ in })
    {
        let (client, number) = state.withLock { state in
            (state.client, state.asked.last { $0.verb == "present" }?.presenter)
        }
        var message = PresenterMessage(presenter: number ?? 0, kind: kind)
        change(&message)
        client?.push(json(Push(message: message)) + [0x0A])
    }
}

/// A directory that the library takes for a mount with a daemon.
final class FakeMount {
    let desk = FakeDesk()
    let directory: TemporaryDirectory
    private var server: ControlServer?

    init() throws {
        directory = try TemporaryDirectory("turns")
        try FileManager.default.createDirectory(
            atPath: directory.path + "/mount", withIntermediateDirectories: true)
        try start()
        simulatedMounts.withLock { $0[FilePath(root)] = directory.path + "/socket/control.sock" }
    }

    deinit {
        simulatedMounts.withLock { _ = $0.removeValue(forKey: FilePath(root)) }
        server?.stop()
    }

    var root: String { directory.path + "/mount" }

    func start() throws {
        let socket = try ControlSocket(directory: directory.path + "/socket", audience: .owner)
        let server = try ControlServer(
            at: socket, service: desk,
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            mayAccess: { _, _, _ in false })
        server.start()
        self.server = server
    }

    func stop() {
        server?.stop()
        server = nil
    }

    func url(_ name: String) -> URL { URL(filePath: "\(root)/\(name)") }

    @discardableResult
    func file(_ name: String, _ text: String = "text") throws -> URL {
        let url = url(name)
        try FileManager.default.createDirectory(
            at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: url)
        return url
    }

    /// The verbs of the requests, in order.
    var verbs: [String] { desk.state.withLock { $0.asked.map(\.verb) } }
    func asked(_ verb: String) -> [Control.Request] {
        desk.state.withLock { $0.asked.filter { $0.verb == verb } }
    }
    func script(_ script: @escaping FakeDesk.Script) {
        desk.state.withLock { $0.script = script }
    }

    func wait(for verb: String, count: Int = 1) throws {
        try Support.wait(for: "\(count) of \(verb); asked: \(verbs)") {
            asked(verb).count >= count ? true : nil
        }
    }
}

/// A presenter that records its messages and answers as a test says.
final class Listener: FilePresenter {
    let presentedItemOperationQueue = OperationQueue()
    let presentedItemMessages: FilePresenterMessages
    let heard = Mutex<[String]>([])
    let url: Mutex<URL?>
    let reader = Mutex<(@Sendable ((@Sendable () -> Void)?) -> Void)?>(nil)
    let saving = Mutex<(@Sendable ((any Error)?) -> Void)?>(nil)

    init(_ url: URL?, _ messages: FilePresenterMessages = .all) {
        self.url = Mutex(url)
        presentedItemMessages = messages
    }

    var presentedItemURL: URL? { url.withLock { $0 } }
    var all: [String] { heard.withLock { $0 } }
    func hear(_ text: String) { heard.withLock { $0.append(text) } }

    func wait(for text: String) throws {
        try Support.wait(for: "\(text); heard: \(all)") { all.contains(text) ? true : nil }
    }

    func relinquishPresentedItem(
        toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
    ) {
        hear("reader")
        self.reader.withLock { $0 = reader }
    }
    func relinquishPresentedItem(
        toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
    ) {
        hear("writer")
        writer { self.hear("reacquired from writer") }
    }
    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        hear("save")
        saving.withLock { $0 = completionHandler }
    }
    func presentedItemDidChange() { hear("changed") }
    func presentedItemDidMove(to newURL: URL) {
        url.withLock { $0 = newURL }
        hear("moved \(newURL.lastPathComponent)")
    }
    func presentedItemDidGain(_ version: FileVersion) {
        hear("gained \(version.persistentIdentifier)")
    }
    func presentedItemRegistrationDidFail(with error: FileCoordinationError) {
        hear("failed \(error.message)")
    }
}
