import Glibc

/// A TCP socket that listens on a free port of 127.0.0.1. Whoever makes it closes it.
package struct LoopbackListener {
    package let descriptor: Int32
    package let port: UInt16

    /// - Parameter flags: Those of socket(2) beside the type, such as `O_NONBLOCK`.
    package init(flags: Int32 = O_CLOEXEC) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | flags, 0)
        var address = LoopbackListener.address(port: 0)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, size) == 0 && listen(listener, 64) == 0
                    && getsockname(listener, $0, &size) == 0
            }
        }
        guard isListening else { throw SupportError("no port of 127.0.0.1 can be listened on") }
        descriptor = listener
        port = UInt16(bigEndian: address.sin_port)
    }

    package static func address(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }

    /// Sends all bytes to a connection. Returns false if the other side has closed it.
    @discardableResult
    package static func send(_ bytes: some Collection<UInt8>, to connection: Int32) -> Bool {
        let bytes = Array(bytes)
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }
}
