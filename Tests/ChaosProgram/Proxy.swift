import Foundation
import Glibc
import Support
import Synchronization

/// A proxy between a device and the hub that can simulate a bad connection. It has its own thread.
final class Proxy: Sendable {
    let port: Int
    var address: String { "http://127.0.0.1:\(port)" }
    private let wanted = Mutex(Line.open)
    private let isEnding = Atomic(false)
    private let resets = Atomic(0)
    private let listener: Int32
    private let wake: (read: Int32, write: Int32)
    private let hub: UInt16

    init(to hub: Int) throws {
        self.hub = UInt16(hub)
        let socket = try LoopbackListener(flags: nonblocking)
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw SupportError("cannot make a proxy") }
        listener = socket.descriptor
        wake = (ends[0], ends[1])
        port = Int(socket.port)
        Thread { self.run() }.start()
    }

    func set(_ line: Line) {
        wanted.withLock { $0 = line == .reset ? .open : line }
        if line == .reset { resets.add(1, ordering: .relaxed) }
        poke()
    }

    /// Ends the proxy; its thread closes all connections.
    func end() {
        isEnding.store(true, ordering: .relaxed)
        poke()
    }

    private func poke() {
        var byte: UInt8 = 0
        _ = write(wake.write, &byte, 1)
    }

    // MARK: The thread

    private func run() {
        var pairs: [Pair] = []
        var reset = 0
        while !isEnding.load(ordering: .relaxed) {
            let line = wanted.withLock { $0 }
            let resets = self.resets.load(ordering: .relaxed)
            if line == .cut || resets != reset {
                for pair in pairs { pair.close(byReset: resets != reset) }
                pairs = []
            }
            reset = resets
            var polled = [pollfd(fd: wake.read, events: Int16(POLLIN), revents: 0)]
            polled.append(pollfd(fd: listener, events: Int16(POLLIN), revents: 0))
            let held = line.held
            let carries = line == .open || !held.isEmpty
            if carries { for pair in pairs { polled += pair.wishes(holding: held) } }
            poll(&polled, nfds_t(polled.count), 1_000)
            if polled[0].revents != 0 {
                var bytes = [UInt8](repeating: 0, count: 64)
                _ = read(wake.read, &bytes, 64)
            }
            if carries { for pair in pairs { pair.carry(holding: held) } }
            pairs.removeAll { $0.hasEnded }
            if polled[1].revents != 0, let pair = accepted(line) { pairs.append(pair) }
        }
        for pair in pairs { pair.close(byReset: false) }
        for descriptor in [listener, wake.read, wake.write] { close(descriptor) }
    }

    private func accepted(_ line: Line) -> Pair? {
        let device = accept(listener, nil, nil)
        guard device >= 0 else { return nil }
        guard line != .cut else {
            close(device)
            return nil
        }
        let hub = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = LoopbackListener.address(port: self.hub)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(hub, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else {
            close(device)
            close(hub)
            return nil
        }
        return Pair(device: device, hub: hub)
    }
}

extension Line {
    /// The resources of the hub for which no request is passed on.
    fileprivate var held: [String] {
        switch self {
        case .commitsWait: ["/commit"]
        case .readsWait: ["/manifests", "/read"]
        case .open, .cut, .stall, .reset: []
        }
    }
}

private let nonblocking = Int32(SOCK_NONBLOCK.rawValue)

/// A connection from a device, with the corresponding connection to the hub.
private final class Pair {
    private let ends: [Int32]
    /// The bytes from each end that have not been passed on.
    private var waiting: [[UInt8]] = [[], []]
    private var isOver = [false, false]
    private(set) var hasEnded = false

    init(device: Int32, hub: Int32) {
        ends = [device, hub]
        var one: Int32 = 1
        for end in ends {
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
            setsockopt(end, Int32(IPPROTO_TCP), TCP_NODELAY, &one, 4)
        }
    }

    /// Whether these bytes from a device begin a request for one of these resources.
    private func isRequest(_ side: Int, for resources: [String]) -> Bool {
        guard side == 0, waiting[0].starts(with: Array("POST ".utf8)) else { return false }
        let line = waiting[0].prefix { $0 != UInt8(ascii: "\r") }
        let text = String(decoding: line, as: UTF8.self)
        return resources.contains { text.contains($0) }
    }

    func wishes(holding held: [String]) -> [pollfd] {
        var events: [Int16] = [0, 0]
        for side in 0...1 where !isRequest(side, for: held) {
            if waiting[side].isEmpty && !isOver[side] { events[side] |= Int16(POLLIN) }
            if !waiting[side].isEmpty { events[1 - side] |= Int16(POLLOUT) }
        }
        // An end without wanted events is left out, because poll(2) would report its hang-up again
        // and again.
        return zip(ends, events).map { pollfd(fd: $1 == 0 ? -1 : $0, events: $1, revents: 0) }
    }

    func carry(holding held: [String]) {
        for side in 0...1 where !hasEnded {
            if waiting[side].isEmpty && !isOver[side] { take(side) }
            if isRequest(side, for: held) { continue }
            if !waiting[side].isEmpty { give(side) }
        }
        if !hasEnded && isOver == [true, true] { close(byReset: false) }
    }

    private func take(_ side: Int) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(ends[side], &buffer, buffer.count, 0)
        if count > 0 { waiting[side] = Array(buffer[..<count]) }
        if count == 0 {
            isOver[side] = true
            shutdown(ends[1 - side], Int32(SHUT_WR))
        }
        if count < 0 && errno != EAGAIN && errno != EINTR { close(byReset: true) }
    }

    private func give(_ side: Int) {
        let count = waiting[side].withUnsafeBytes {
            send(ends[1 - side], $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
        if count > 0 { waiting[side].removeFirst(count) }
        if count < 0 && errno != EAGAIN && errno != EINTR { close(byReset: true) }
    }

    func close(byReset: Bool) {
        if hasEnded { return }
        hasEnded = true
        for end in ends {
            if byReset {
                var now = linger(l_onoff: 1, l_linger: 0)
                setsockopt(end, SOL_SOCKET, SO_LINGER, &now, socklen_t(MemoryLayout<linger>.size))
            }
            Glibc.close(end)
        }
    }
}
