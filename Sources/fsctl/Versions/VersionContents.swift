import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// The entries of a version, and a way to read their bytes.
struct VersionContents {
    /// Where the bytes are read from.
    enum Source {
        /// The hidden directory in the mount, where POSIX permissions apply.
        case hidden(FilePath)
        /// The daemon, piece by piece, for a document that has no name any more.
        case daemon(ControlClient, id: String, number: Int)
    }

    let source: Source
    let isPackage: Bool
    /// A regular file has one entry with an empty path; a package has its files, directories and
    /// symlinks, sorted.
    let entries: [ContentsReport.Entry]

    private static let pieceSize = 1 << 20

    init(of version: VersionReport, in document: Document) throws(VolumeError) {
        var request = Request(.contents, path: document.place.components)
        request.number = version.number
        (isPackage, entries) = try VersionContents.list(request, document.client)
        source = .hidden(document.hiddenPath(of: version))
    }

    init(of version: VersionReport, ofDeleted id: String, from client: ControlClient)
        throws(VolumeError)
    {
        var request = Request(.contents)
        request.document = id
        request.number = version.number
        (isPackage, entries) = try VersionContents.list(request, client)
        source = .daemon(client, id: id, number: version.number)
    }

    /// A plain file, read as if it were a version with this mode.
    init(of file: FilePath, mode: UInt32) throws(VolumeError) {
        isPackage = false
        source = .hidden(file)
        do throws(Errno) {
            let status = try file.status()
            let mode = UInt16(truncatingIfNeeded: mode & 0o7777)
            let entry = Manifest.Entry(mode: mode, size: UInt64(max(0, status.st_size)))
            entries = [ContentsReport.Entry(entry)]
        } catch {
            throw VolumeError(.notFound, "cannot read \(file): \(error)")
        }
    }

    private static func list(_ first: Request, _ client: ControlClient) throws(VolumeError)
        -> (Bool, [ContentsReport.Entry])
    {
        var (request, entries) = (first, [ContentsReport.Entry]())
        while true {
            let report = try client.ask(request, as: ContentsReport.self)
            entries += report.entries
            guard let next = report.next else { return (report.package, entries) }
            request.entry = next
        }
    }

    /// Calls `body` with the bytes of entry `index`, in pieces of at most 1 MiB, in order.
    func read(_ index: Int, _ body: ([UInt8]) throws(VolumeError) -> Void) throws(VolumeError) {
        switch source {
        case .hidden(let path): try readHidden(path, index, body)
        case .daemon(let client, let id, let number):
            try readRemote(client, id, number, index, body)
        }
    }

    private func readHidden(
        _ root: FilePath, _ index: Int, _ body: ([UInt8]) throws(VolumeError) -> Void
    ) throws(VolumeError) {
        let inside = entries[index].path
        let path = inside.bytes.isEmpty ? root : root.appending(inside.path ?? [])
        var descriptor: Int32 = -EINTR
        // A program that was stopped by a signal and continued may get EINTR.
        while descriptor == -EINTR, cl_interrupted() == 0 {
            descriptor = path.withCString { cl_openat(AT_FDCWD, $0, O_RDONLY | O_NOFOLLOW, 0) }
        }
        guard descriptor >= 0 else { throw unreadable(path, Errno(-descriptor)) }
        let file = Descriptor(owning: descriptor)
        var offset: Int64 = 0
        while true {
            var piece = [UInt8](repeating: 0, count: VersionContents.pieceSize)
            let count = piece.withUnsafeMutableBytes {
                cl_pread(file.raw, $0.baseAddress!, $0.count, offset)
            }
            if count == -Int(EINTR), cl_interrupted() == 0 { continue }
            guard count >= 0 else { throw unreadable(path, Errno(Int32(-count))) }
            if count == 0 { break }
            piece.removeLast(piece.count - count)
            try body(piece)
            offset += Int64(count)
        }
        guard UInt64(offset) == entries[index].size else {
            throw VolumeError(
                .damaged,
                "\(path) has \(offset) bytes where its version has \(entries[index].size); run "
                    + "fsctl doctor"
            )
        }
    }

    private func readRemote(
        _ client: ControlClient, _ id: String, _ number: Int, _ index: Int,
        _ body: ([UInt8]) throws(VolumeError) -> Void
    ) throws(VolumeError) {
        var request = Request(.extract)
        (request.document, request.number, request.entry) = (id, number, index)
        request.length = Limits.pieceBytesMax
        var offset: Int64 = 0
        while UInt64(offset) < entries[index].size {
            request.offset = offset
            let report = try client.ask(request, as: PieceReport.self)
            guard let piece = bytes(base64: report.data), !piece.isEmpty else {
                throw VolumeError(
                    .damaged, "version \(number) of document \(id) ends too early; run fsctl doctor"
                )
            }
            try body(piece)
            offset += Int64(piece.count)
        }
    }

    private func unreadable(_ path: FilePath, _ error: Errno) -> VolumeError {
        switch error {
        case .denied: VolumeError(.denied, "you may not read \(path)")
        case .io: VolumeError(.damaged, "\(path) is damaged and cannot be read; run fsctl doctor")
        default: VolumeError(.system, "cannot read \(path): \(error)")
        }
    }
}
