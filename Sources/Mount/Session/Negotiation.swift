import CFuse
import Glibc
import Synchronization

/// Completes the reply to INIT, the first request, with flags that libfuse 3.14 does not know,
/// mainly passthrough. Everything else is passed on unchanged.
final class Negotiation: Sendable {
    private enum Stage: UInt8, AtomicRepresentable {
        case before, seen, done
    }

    private let stage = Atomic(Stage.before)
    private let unique = Atomic<UInt64>(0)
    private let offered = Atomic<UInt64>(0)
    private let agreed = Atomic<UInt64>(0)

    func has(_ flag: UInt64) -> Bool { agreed.load(ordering: .acquiring) & flag != 0 }
    func isOffered(_ flag: UInt64) -> Bool { offered.load(ordering: .acquiring) & flag != 0 }
    var isDone: Bool { stage.load(ordering: .acquiring) == .done }

    /// Reads the INIT request.
    func received(_ buffer: UnsafeRawPointer, count: Int) {
        guard stage.load(ordering: .relaxed) == .before,
            count >= MemoryLayout<cf_in_header>.size + MemoryLayout<cf_init_in>.size
        else { return }
        let header = buffer.loadUnaligned(as: cf_in_header.self)
        guard header.opcode == UInt32(CF_OP_INIT) else { return }
        let message = buffer.loadUnaligned(
            fromByteOffset: MemoryLayout<cf_in_header>.size, as: cf_init_in.self)
        let high = UInt64(message.flags) & CF_INIT_EXT != 0 ? UInt64(message.flags2) << 32 : 0
        offered.store(UInt64(message.flags) | high, ordering: .relaxed)
        unique.store(header.unique, ordering: .relaxed)
        stage.store(.seen, ordering: .releasing)
    }

    /// Completes the reply to INIT. `rings` prepares the rings for payloads of a size and returns
    /// whether the reply may claim them.
    func sending(
        _ pieces: UnsafePointer<iovec>, count: Int32, passthrough: Bool,
        rings: (_ payload: Int) -> Bool
    ) {
        guard stage.load(ordering: .acquiring) == .seen, count == 2, let base = pieces[0].iov_base,
            pieces[1].iov_len >= MemoryLayout<cf_init_out>.size, let body = pieces[1].iov_base
        else { return }
        let header = base.loadUnaligned(as: cf_out_header.self)
        guard header.unique == unique.load(ordering: .relaxed), header.error == 0 else { return }
        var message = body.loadUnaligned(as: cf_init_out.self)
        var flags = UInt64(message.flags) | UInt64(message.flags2) << 32
        flags |= CF_INIT_EXT | CF_PARALLEL_DIROPS | CF_ABORT_ERROR | CF_HANDLE_KILLPRIV_V2
        flags |= CF_NO_EXPORT_SUPPORT | CF_CREATE_SUPP_GROUP
        if passthrough { flags |= CF_PASSTHROUGH | CF_DIRECT_IO_ALLOW_MMAP }
        flags &= offered.load(ordering: .relaxed) & ~CF_WRITEBACK_CACHE
        // One more file system, for example overlayfs, may be stacked on the mount.
        if flags & CF_PASSTHROUGH != 0 { message.max_stack_depth = 1 }
        let pages = Int(message.max_pages) * sysconf(Int32(_SC_PAGESIZE))
        if rings(max(8192, Int(message.max_write), pages)) { flags |= CF_OVER_IO_URING }
        message.flags = UInt32(truncatingIfNeeded: flags)
        message.flags2 = UInt32(truncatingIfNeeded: flags >> 32)
        body.storeBytes(of: message, as: cf_init_out.self)
        agreed.store(flags, ordering: .relaxed)
        stage.store(.done, ordering: .releasing)
    }
}
