import CFuse
import CFuseRing
import CLinux
import Glibc
import Logging
import Model
import Synchronization
import SystemCalls

/// Carries requests over io_uring where the kernel offers that (Linux 6.14 and later). Whether it
/// does is decided once, by the reply to INIT; otherwise /dev/fuse carries everything. With rings,
/// /dev/fuse still brings FORGET and INTERRUPT, and takes notifications.
final class RingTransport: @unchecked Sendable {
    /// The number of entries that each queue keeps free. More requests of one CPU at the same time
    /// wait in the kernel.
    private static let depth: UInt32 = 32
    private static let parameter = "/sys/module/fuse/parameters/enable_uring"

    private let isWanted: Bool
    private let log: Logger
    /// Set before the reply to INIT claims the rings, and never changed while requests are served.
    private(set) var ring: OpaquePointer?
    private let threads = Mutex<[Thread]>([])
    private let isClaimed = Atomic(false)
    /// Why requests do not come over io_uring; nil if they do, or if it is not known yet.
    let whyNot = Mutex<String?>(nil)
    /// Called on a thread of a ring, if the kernel refuses a queue although the rings were claimed.
    /// Requests would hang until the session ends.
    let failed = CallbackSlot<@Sendable () -> Void>()

    init(isWanted: Bool, log: Logger) {
        self.isWanted = isWanted
        self.log = log
        if !isWanted { whyNot.withLock { $0 = "without the mount option uring" } }
    }

    /// Whether requests come over io_uring.
    var isUsed: Bool { isClaimed.load(ordering: .acquiring) }

    // MARK: Negotiation

    /// Switches the kernel's parameter on, if this process may. Call it before mounting, because
    /// the kernel reads the parameter when it sends INIT.
    func switchOn() {
        guard isWanted, geteuid() == 0 else { return }
        // Opening the device loads the module.
        let device = cl_openat(AT_FDCWD, "/dev/fuse", O_RDWR, 0)
        if device >= 0 { _ = cl_close(device) }
        guard RingTransport.isParameterOn == false else { return }
        let file = cl_openat(AT_FDCWD, RingTransport.parameter, O_WRONLY, 0)
        guard file >= 0 else { return }
        _ = Glibc.write(file, "Y", 1)
        _ = cl_close(file)
    }

    /// Nil if the kernel has no such parameter.
    private static var isParameterOn: Bool? {
        let file = cl_openat(AT_FDCWD, parameter, O_RDONLY, 0)
        guard file >= 0 else { return nil }
        defer { _ = cl_close(file) }
        var byte: UInt8 = 0
        guard Glibc.read(file, &byte, 1) == 1 else { return nil }
        return byte == UInt8(ascii: "Y") || byte == UInt8(ascii: "1")
    }

    /// Prepares everything that can fail. Returns whether the reply to INIT may claim the rings:
    /// once they are claimed, the kernel holds all requests back until each CPU has its queue.
    func prepare(for driver: Driver, isOffered: Bool, payload: Int) -> Bool {
        guard isWanted else { return false }
        guard isOffered else {
            giveUp(
                RingTransport.isParameterOn == nil
                    ? "this kernel does not offer io_uring for FUSE (6.14 and later do)"
                    : "the kernel's parameter fuse.enable_uring is off")
            return false
        }
        var settings = fr_settings()
        settings.device = driver.kernel
        settings.payload = payload
        settings.depth = RingTransport.depth
        settings.owner = Unmanaged.passUnretained(driver).toOpaque()
        settings.serve = { driver, request, size in
            Unmanaged<Driver>.fromOpaque(driver!).takeUnretainedValue().serve(request!, size)
        }
        var error: Int32 = 0
        guard let made = fr_create(&settings, &error) else {
            giveUp("io_uring cannot be set up: \(RingTransport.words(-error))")
            return false
        }
        threads.withLock { threads in
            threads = (0..<fr_queue_count(made)).map { queue in
                // An opaque pointer is not Sendable; it stays valid until the threads have ended.
                let address = UInt(bitPattern: made)
                return Thread("ring \(queue)") {
                    self.serve(OpaquePointer(bitPattern: address)!, queue)
                }
            }
        }
        let failure = fr_await_prepared(made)
        guard failure == 0 else {
            fr_begin(made, 0)
            joinThreads()
            fr_close(made)
            fr_destroy(made)
            giveUp("a CPU's queue cannot be served: \(RingTransport.words(-failure))")
            return false
        }
        ring = made
        return true
    }

    /// Called after the reply to INIT, which has claimed the rings, was sent or not.
    func begin(_ isSent: Bool) {
        guard let ring else { return }
        isClaimed.store(isSent, ordering: .releasing)
        fr_begin(ring, isSent ? 1 : 0)
    }

    private static func words(_ error: Int32) -> String {
        error == EPERM
            ? "this process may not use it (see kernel.io_uring_disabled)" : "\(Errno(error))"
    }

    private func giveUp(_ reason: String) {
        whyNot.withLock { $0 = reason }
        log.info("Requests come over /dev/fuse: \(reason).")
    }

    // MARK: Serving

    private func serve(_ ring: OpaquePointer, _ queue: UInt32) {
        _ = cl_thread_unshare()
        let result = fr_serve_queue(ring, queue)
        guard result < 0, isUsed else { return }
        log.critical(
            """
            The kernel refuses the io_uring queue of CPU \(queue): \(Errno(-result)). The mount \
            ends; mount again without the option uring.
            """)
        failed.current?()
    }

    /// Replaces the kernel's number of the interrupted request by ours. Returns false if nothing is
    /// to be done now.
    func translate(_ message: UnsafeMutableRawBufferPointer) -> Bool {
        let header = MemoryLayout<cf_in_header>.size
        guard let ring, message.count >= header + 8,
            message.loadUnaligned(as: cf_in_header.self).opcode == UInt32(CF_OP_INTERRUPT)
        else { return true }
        let number = message.loadUnaligned(fromByteOffset: header, as: UInt64.self)
        let ours = fr_interrupted(ring, number)
        message.storeBytes(of: ours, toByteOffset: header, as: UInt64.self)
        return ours != 0
    }

    // MARK: The end

    /// Returns when no ring's thread runs any more.
    func end() {
        if let ring { fr_stop(ring) }
        joinThreads()
    }

    private func joinThreads() {
        let all = threads.withLock { threads in
            defer { threads = [] }
            return threads
        }
        for thread in all { thread.join() }
    }

    /// Releases /dev/fuse. No request may be answered any more.
    func close() { if let ring { fr_close(ring) } }

    /// Frees the memory. The connection must have ended.
    func destroy() {
        if let ring { fr_destroy(ring) }
        ring = nil
    }
}
