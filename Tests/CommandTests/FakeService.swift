import CLinux
import Control
import Glibc
import Logging
import Model
import Synchronization

/// A service without a volume, which returns the request that it got.
final class FakeService: ControlService {
    struct State {
        var asked: [Request] = []
        var isWaiting = 0
        var histories: [String: HistoryReport] = [:]
        /// The bytes of the entries of each version, by document id and number.
        var contents: [String: [(ContentsReport.Entry, [UInt8])]] = [:]
        var deleted: [DeletedReport.Document] = []
    }
    let state = Mutex(State())

    func answer(_ request: Request, from peer: Peer, progress: @escaping (Progress) -> Bool)
        throws(VolumeError) -> Answer
    {
        state.withLock { $0.asked.append(request) }
        switch try request.known() {
        case .status where request.path == nil:
            return .volume(
                VolumeReport(
                    volume: "v", device: "d", name: "\(peer.uid)", store: RawText("/s"),
                    tree: RawText("/t")))
        case .status:
            _ = try request.components()
            return .document(
                DocumentReport(
                    id: "i", kind: "file", state: "current", durability: "disk", versions: 2,
                    size: 1, current: 2))
        case .versions where request.deleted == true:
            return .deleted(DeletedReport(documents: state.withLock { $0.deleted }))
        case .versions: return .history(try history(request))
        case .contents: return .contents(try contents(request))
        case .purge:
            return .purged(
                PurgedReport(
                    versions: 3, contents: 1, bytes: 2_500_000,
                    kept: [.init(count: 2, reason: "in conflict (`fsctl resolve`)")]))
        case .extract: return .piece(try piece(request))
        // Its documents are recorded. Others never are.
        case .wait where isDocument(request): return .done
        case .wait:
            waitForEver(progress)
            throw VolumeError(.timeout, "never")
        case .doctor:
            for step in 1...3 { _ = progress(Progress("step \(step)", fraction: Double(step) / 3)) }
            return .doctor(
                DoctorReport(findings: [.init(severity: "damage", subject: "a", message: "is bad")])
            )
        case .statistics:
            // A long answer, for clients that do not read it.
            let name = String(repeating: "x", count: 1000)
            let all = (0..<(request.length ?? 1)).map { ("\(name)\($0)", 1) }
            return .statistics(
                StatisticsReport(requests: Dictionary(uniqueKeysWithValues: all), volume: [:]))
        default: return .done
        }
    }

    private func isDocument(_ request: Request) -> Bool {
        state.withLock { $0.histories[request.path?.text ?? ""] != nil }
    }

    private func waitForEver(_ progress: (Progress) -> Bool) {
        state.withLock { $0.isWaiting += 1 }
        while progress(Progress("waiting", fraction: 0)) { usleep(10_000) }
        state.withLock { $0.isWaiting -= 1 }
    }

    private func history(_ request: Request) throws(VolumeError) -> HistoryReport {
        let key = request.document ?? request.path?.text ?? ""
        let found = state.withLock { $0.histories[key] }
        guard let found else { throw VolumeError(.notFound, "no document \(key)") }
        return found
    }

    private func entries(_ request: Request) throws(VolumeError) -> [(
        ContentsReport.Entry, [UInt8]
    )] {
        let key = "\(try history(request).id) \(try request.versionNumber())"
        return state.withLock { $0.contents[key] ?? [] }
    }

    private func contents(_ request: Request) throws(VolumeError) -> ContentsReport {
        let (all, start) = (try entries(request), request.entry ?? 0)
        // Two entries at a time, so that the tests cover paging.
        let page = all[start...].prefix(2)
        return ContentsReport(
            package: all.count > 1, entries: page.map(\.0),
            next: page.endIndex < all.count ? page.endIndex : nil)
    }

    private func piece(_ request: Request) throws(VolumeError) -> PieceReport {
        let bytes = try entries(request)[request.entry ?? 0].1
        // Small pieces, so that a file needs more than one.
        return PieceReport(data: base64(Array(bytes.dropFirst(Int(request.offset ?? 0)).prefix(3))))
    }
}

extension FakeService {
    /// A version of a document with its entries: `path`, kind, mode, bytes.
    func add(
        _ id: String, at path: String?, number: Int, kind: Version.Kind = .history,
        label: String? = nil, entries: [(String, Manifest.Kind, UInt16, String)]
    ) {
        let name = Name(path?.split(separator: "/").last.map(String.init) ?? "gone.txt")
        let version = Version(
            number: number, kind: kind, device: .random(), deviceName: "desk", person: "ann",
            program: "vim", name: name, size: UInt64(entries.map(\.3.utf8.count).reduce(0, +)),
            modified: 0, saved: 0, content: Digest(.sha256, words: (0, 0, 0, 0)), label: label)
        let report = VersionReport(version, fileName: Name("\(number) \(name)"))
        let isPackage = entries.count > 1
        state.withLock { state in
            var history =
                state.histories[id]
                ?? HistoryReport(id: id, package: isPackage, state: "current", versions: [])
            history.versions.append(report)
            for key in [id, path].compactMap(\.self) { state.histories[key] = history }
            state.contents["\(id) \(number)"] = entries.map { path, kind, mode, text in
                let target = kind == .symlink ? Array(text.utf8) : []
                let entry = Manifest.Entry(
                    path: Array(path.utf8), kind: kind, mode: mode,
                    size: UInt64(text.utf8.count), target: target)
                return (ContentsReport.Entry(entry), Array(text.utf8))
            }
        }
    }
}

/// A server in a directory of its own, which is stopped when the test ends.
final class FakeDaemon {
    let service = FakeService()
    let server: ControlServer
    private let scratch: Scratch

    init(
        limits: Limits = Limits(), audience: Audience = .owner,
        mayAccess: @escaping ControlServer.MayAccess = { _, _, _ in false }
    ) throws {
        scratch = try Scratch()
        let socket = try ControlSocket(directory: scratch("socket"), audience: audience)
        chmod(scratch.path, 0o755)
        server = try ControlServer(
            at: socket, service: service, limits: limits,
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, mayAccess: mayAccess)
        server.start()
    }

    deinit { server.stop() }

    func client() throws -> ControlClient { try ControlClient(socket: server.path) }
    func raw() throws -> RawClient { try RawClient(server.path) }
}

/// A bare socket, for what a correct client would not do.
final class RawClient {
    let socket: Int32

    struct Refused: Error { let code: Int32 }

    init(_ path: String) throws {
        socket = cl_unix_connect(path)
        if socket < 0 { throw Refused(code: -socket) }
        // The timeout makes a test fail that would hang otherwise.
        var limit = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { _ = cl_close(socket) }

    /// Returns false when the server has closed the connection.
    @discardableResult
    func send(_ text: String) -> Bool {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { cl_send(socket, $0.baseAddress!, $0.count) }
            if count <= 0 { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Reads until the server closes the connection or `lines` lines have come.
    func receive(lines: Int = .max) -> String {
        var (all, piece) = ([UInt8](), [UInt8](repeating: 0, count: 1 << 16))
        while all.count(where: { $0 == UInt8(ascii: "\n") }) < lines {
            let count = cl_receive(socket, &piece, piece.count)
            if count <= 0 { break }
            all += piece[..<count]
        }
        return String(decoding: all, as: UTF8.self)
    }
}

/// Waits until the condition holds; returns false when it does not within 20 s.
func eventually(_ condition: () -> Bool) -> Bool {
    for _ in 0..<2000 {
        if condition() { return true }
        usleep(10_000)
    }
    return false
}
