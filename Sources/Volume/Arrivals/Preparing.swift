import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// Writes these chunks, in their order, to a file.
package typealias Filling = ([ChunkReference], Int32) throws(VolumeError) -> Void

/// Creates one item with all its attributes in a directory beside the tree.
struct Preparing {
    let arrival: Arrival
    let directory: Int32
    let barrier: WriteBarrier

    func make(_ name: Name, fill: Filling) throws(VolumeError) {
        do {
            try make(name, fill)
        } catch let error as VolumeError {
            throw error
        } catch {
            let code: VolumeError.Code = error as? Errno == .noSpace ? .full : .system
            throw VolumeError(
                code, "A change from the hub cannot be prepared in the store: \(error).")
        }
    }

    private func make(_ name: Name, _ fill: Filling) throws {
        switch arrival.kind {
        case .file: try makeFile(name, fill)
        case .directory:
            try makeDirectory(name, in: directory)
            let made = try openBeneath([name], from: directory, flags: O_PATH | O_DIRECTORY)
            try finish(made.raw, mode: arrival.mode ?? 0o755)
        case .package: try makePackage(name, fill)
        case .symlink:
            let target = Name(bytes: arrival.target)
            try name.withCString { (name) throws(Errno) in
                try target.withCString { (target) throws(Errno) in
                    _ = try check(cl_symlinkat(target, directory, name))
                }
            }
        case .special: throw VolumeError(.invalid, "Special files do not come from a hub.")
        }
    }

    /// Sets the arrival tag and the attributes.
    private func finish(_ file: Int32, mode: UInt16) throws(Errno) {
        try setAttributes(of: file)
        try arrival.mark.set(on: file)
        try IncomingAttributes(mode: mode).apply(to: file)
    }

    private func setAttributes(of file: Int32) throws(Errno) {
        try IncomingAttributes(mode: nil, set: arrival.attributes.attributes).apply(to: file)
    }

    private func makeDirectory(_ name: Name, in directory: Int32) throws(Errno) {
        try name.withCString { (text) throws(Errno) in
            _ = try check(cl_mkdirat(directory, text, 0o700))
        }
    }

    private func newFile(_ name: Name, in directory: Int32) throws(Errno) -> Descriptor {
        let flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW
        return Descriptor(
            owning: try name.withCString { (text) throws(Errno) in
                try check(cl_openat(directory, text, flags, 0o600))
            })
    }

    private func makeFile(_ name: Name, _ fill: Filling) throws {
        let file = try newFile(name, in: directory)
        // The file is empty: nothing was ever saved in it.
        guard let version = arrival.version else {
            return try finish(file.raw, mode: arrival.mode ?? 0o644)
        }
        if arrival.isDataless, version.size > 0 {
            try setAttributes(of: file.raw)
            try PlaceholderMark(item: arrival.item, version: version.id).makePlaceholder(
                of: file.raw, size: version.size, modified: version.modified,
                mode: SharedMode.bits(of: arrival.mode ?? 0o644))
            return
        }
        let chunks = Manifest(encoded: arrival.manifest)?.entries.first?.chunks
        if version.size > 0 {
            guard let chunks else {
                throw VolumeError(.invalid, "A file from the hub has no list of its chunks.")
            }
            try fill(chunks, file.raw)
            try setLength(of: file.raw, version.size, chunks)
            try barrier.write(file.raw)
        }
        try finish(file.raw, mode: arrival.mode ?? 0o644)
        try PlaceholderMark.restore(version.modified, of: file.raw)
    }

    /// Sets the length, because zeros at the end are not written.
    private func setLength(of file: Int32, _ size: UInt64, _ chunks: [ChunkReference]) throws {
        guard chunks.reduce(0, { $0 &+ UInt64($1.length) }) == size else {
            throw VolumeError(.damaged, "A file from the hub has a wrong size.")
        }
        try check(cl_ftruncate(file, Int64(clamping: size)))
    }

    // MARK: Packages

    private func makePackage(_ name: Name, _ fill: Filling) throws {
        guard let version = arrival.version, let manifest = Manifest(encoded: arrival.manifest)
        else { throw VolumeError(.invalid, "A package from the hub has no list of its files.") }
        try makeDirectory(name, in: directory)
        let root = try openBeneath([name], from: directory, flags: O_PATH | O_DIRECTORY)
        for entry in manifest.entries { try make(entry, of: version, in: root.raw, fill) }
        // Attributes of directories are set last: creating an entry changes a directory's times,
        // and a read-only directory accepts no entries.
        for entry in manifest.entries.reversed() where entry.kind == .directory {
            let made = try openBeneath(entry.names, from: root.raw, flags: O_PATH | O_DIRECTORY)
            try IncomingAttributes(mode: entry.mode).apply(to: made.raw)
            try PlaceholderMark.restore(entry.modified, of: made.raw)
        }
        try finish(root.raw, mode: arrival.mode ?? 0o755)
        try PlaceholderMark.restore(version.modified, of: root.raw)
    }

    private func make(
        _ entry: Manifest.Entry, of version: Version, in root: Int32, _ fill: Filling
    ) throws {
        let names = entry.names
        guard let name = names.last, names.allSatisfy(\.isSafe),
            entry.path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).count
                == names.count
        else { throw VolumeError(.invalid, "A package from the hub has an invalid file name.") }
        let parent = try openBeneath(names.dropLast(), from: root, flags: O_PATH | O_DIRECTORY)
        switch entry.kind {
        case .directory: try makeDirectory(name, in: parent.raw)
        case .symlink:
            let target = Name(bytes: entry.target)
            try name.withCString { (name) throws(Errno) in
                try target.withCString { (target) throws(Errno) in
                    _ = try check(cl_symlinkat(target, parent.raw, name))
                }
            }
        case .file:
            let file = try newFile(name, in: parent.raw)
            if arrival.isDataless, entry.size > 0 {
                try PlaceholderMark(item: arrival.item, version: version.id).makePlaceholder(
                    of: file.raw, size: entry.size, modified: entry.modified,
                    mode: SharedMode.bits(of: entry.mode))
                return
            }
            if entry.size > 0 {
                try fill(entry.chunks, file.raw)
                try setLength(of: file.raw, entry.size, entry.chunks)
                try barrier.write(file.raw)
            }
            try IncomingAttributes(mode: entry.mode).apply(to: file.raw)
            try PlaceholderMark.restore(entry.modified, of: file.raw)
        }
    }
}
