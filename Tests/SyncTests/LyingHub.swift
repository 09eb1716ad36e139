import Foundation
import Glibc
import HubProtocol
import Support
import Synchronization

/// A proxy between devices and a hub that changes some of the hub's answers.
final class LyingHub: @unchecked Sendable {
    /// Returns the answer to send instead; nil if the hub's answer stays.
    typealias Lie = @Sendable (_ path: String, _ body: [UInt8]) -> [UInt8]?

    /// A request that is not answered by the hub.
    struct Refusal: Sendable {
        /// The part of the path of the requests to refuse.
        var path: String
        /// The HTTP status; nil if the connection is closed without an answer.
        var status: Int?
        /// Whether the hub has processed the request before.
        var isDone: Bool
    }

    let address: String
    private let hub: UInt16
    private let listener: Int32
    private let state = Mutex<State>(State())

    private struct State {
        var lie: Lie?
        var refusal: Refusal?
        var told = 0
        var open: Set<Int32> = []
        var isEnding = false
    }

    private let threads = DispatchGroup()

    init(before hub: HubProcess) throws {
        self.hub = UInt16(hub.port)
        let socket = try LoopbackListener()
        let listener = socket.descriptor
        self.listener = listener
        address = "http://127.0.0.1:\(socket.port)"
        start { [self] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0, keep(client) else { return }
                start { [self] in serve(client) }
            }
        }
    }

    private func start(_ body: @escaping @Sendable () -> Void) {
        threads.enter()
        let group = threads
        Thread.detachNewThread {
            body()
            group.leave()
        }
    }

    /// Closes all connections, and returns when all threads have ended.
    func stop() {
        let open = state.withLock { state in
            state.isEnding = true
            return state.open
        }
        shutdown(listener, Int32(SHUT_RDWR))
        for connection in open { shutdown(connection, Int32(SHUT_RDWR)) }
        threads.wait()
        close(listener)
    }

    func lie(_ lie: Lie?) { state.withLock { ($0.lie, $0.told) = (lie, 0) } }

    func refuse(_ refusal: Refusal?) { state.withLock { ($0.refusal, $0.told) = (refusal, 0) } }

    /// The number of changed or refused answers since it was told to.
    var told: Int { state.withLock { $0.told } }

    private func keep(_ connection: Int32) -> Bool {
        let isKept = state.withLock { state in
            if !state.isEnding { state.open.insert(connection) }
            return !state.isEnding
        }
        if !isKept { close(connection) }
        return isKept
    }

    private func leave(_ connection: Int32) {
        state.withLock { _ = $0.open.remove(connection) }
        close(connection)
    }

    // MARK: One request

    private func serve(_ client: Int32) {
        defer { leave(client) }
        guard let request = LyingHub.message(from: client) else { return }
        let path = request.head.split(separator: " ").dropFirst().first.map(String.init) ?? ""
        let refusal = state.withLock { $0.refusal }.flatMap { path.contains($0.path) ? $0 : nil }
        if let refusal, !refusal.isDone { return answer(refusal, to: client) }
        let up = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
        guard keep(up) else { return }
        defer { leave(up) }
        var place = LoopbackListener.address(port: hub)
        let isUp = withUnsafeMutablePointer(to: &place) { place in
            place.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(up, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isUp else { return }
        let head = LyingHub.head(request.head, with: "Connection: close")
        LoopbackListener.send(Array(head.utf8) + request.body, to: up)
        if let refusal {
            _ = LyingHub.message(from: up, toEnd: true)
            return answer(refusal, to: client)
        }
        let lie = path.contains("/feed") ? nil : state.withLock { $0.lie }
        if let lie, let answer = LyingHub.message(from: up, toEnd: true) {
            let isInPieces = answer.head.lowercased().contains("transfer-encoding: chunked")
            var body = isInPieces ? LyingHub.joined(answer.body) : answer.body
            if let other = lie(path, body) {
                body = other
                state.withLock { $0.told += 1 }
            }
            let head = LyingHub.head(
                answer.head, with: "Connection: close\r\nContent-Length: \(body.count)")
            LoopbackListener.send(Array(head.utf8) + body, to: client)
            return
        }
        pass(from: up, to: client)
    }

    private func answer(_ refusal: Refusal, to client: Int32) {
        state.withLock { $0.told += 1 }
        guard let status = refusal.status else { return }
        // The answer of a hub, or of a proxy before it.
        let code = status == 503 ? "busy" : "\(status)"
        let body = #"{"code":"\#(code)","message":"Not now."}"#
        LoopbackListener.send(
            Array(
                ("HTTP/1.1 \(status) Not now\r\nConnection: close\r\nContent-Type: "
                    + "application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
                    + body).utf8),
            to: client)
    }

    /// Passes bytes on as they arrive; the connection is used once.
    private func pass(from up: Int32, to client: Int32) {
        var head: [UInt8]? = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(up, &piece, piece.count)
            guard count > 0 else { return }
            var bytes = Array(piece[..<count])
            if let begun = head {
                bytes = begun + bytes
                guard let end = Data(bytes).range(of: Data("\r\n\r\n".utf8)) else {
                    head = bytes
                    continue
                }
                head = nil
                let text = String(decoding: bytes[..<end.lowerBound], as: UTF8.self)
                let other = LyingHub.head(text, with: "Connection: close")
                bytes = Array(other.utf8) + bytes[end.upperBound...]
            }
            guard LoopbackListener.send(bytes, to: client) else { return }
        }
    }

    /// Joins the pieces of a body that was sent in chunks of HTTP.
    private static func joined(_ pieces: [UInt8]) -> [UInt8] {
        var (rest, body) = (pieces[...], [UInt8]())
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")),
            let count = Int(
                String(decoding: rest[..<end].dropLast(), as: UTF8.self), radix: 16), count > 0
        {
            body += rest[(end + 1)...].prefix(count)
            rest = rest[(end + 1)...].dropFirst(count + 2)
        }
        return body
    }

    /// Removes the headers about the connection.
    private static func head(_ head: String, with line: String) -> String {
        let names =
            line.lowercased().components(separatedBy: "\r\n").map {
                $0.prefix { $0 != ":" } + ":"
            } + (line.contains("Content-Length") ? ["transfer-encoding:"] : [])
        var lines = head.components(separatedBy: "\r\n").filter { line in
            !names.contains { line.lowercased().hasPrefix($0) }
        }
        lines.insert(line, at: 1)
        return lines.joined(separator: "\r\n") + "\r\n\r\n"
    }

    private static func message(
        from connection: Int32, toEnd: Bool = false
    ) -> (head: String, body: [UInt8])? {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        var wanted: Int?
        var start = 0
        while wanted.map({ bytes.count < $0 }) ?? true {
            let count = read(connection, &piece, piece.count)
            guard count > 0 else { break }
            bytes += piece[..<count]
            guard wanted == nil, let end = Data(bytes).range(of: Data("\r\n\r\n".utf8)) else {
                continue
            }
            start = end.upperBound
            let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self)
            let length = head.components(separatedBy: "\r\n").first {
                $0.lowercased().hasPrefix("content-length:")
            }?.split(separator: ":").last.flatMap { Int($0.trimmingCharacters(in: .whitespaces)) }
            wanted = toEnd && length == nil ? .max : start + (length ?? 0)
        }
        guard wanted != nil else { return nil }
        return (
            String(decoding: bytes[..<(start - 4)], as: UTF8.self), Array(bytes[start...])
        )
    }
}
