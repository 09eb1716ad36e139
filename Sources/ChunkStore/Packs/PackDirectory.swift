import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// The directory of a store and its packs: the file `0000002a.pack` is pack 42.
final class PackDirectory: Sendable {
    let path: String
    private let descriptor: Descriptor
    private let sizes: Mutex<[UInt32: UInt64]>
    /// The packs that are open for reading. The one that was used last is at the end.
    private let open = Mutex<[PackFile]>([])

    /// Opens the directory. Creates it with mode 0700 when it does not exist.
    init(_ path: String) throws(VolumeError) {
        self.path = path
        do throws(Errno) {
            let made = cl_mkdirat(AT_FDCWD, path, 0o700)
            if made != -EEXIST { try check(made) }
            descriptor = try Descriptor(opening: path, flags: O_RDONLY | O_DIRECTORY)
            if made == 0 { try syncParent(of: descriptor) }
            sizes = Mutex(try listPacks(in: descriptor))
        } catch {
            throw VolumeError(failure: error, "The chunk store \(path) cannot be opened")
        }
    }

    /// The highest pack number in use, as far as the files show. Packs in quarantine count, because
    /// they keep their numbers so that they can be moved back.
    var newest: UInt32 {
        let kept = (try? quarantinedPacks())?.keys.max() ?? 0
        return max(packs.last?.pack ?? 0, kept)
    }

    /// The size of each pack in bytes, in the order of the numbers.
    var packs: [(pack: UInt32, bytes: UInt64)] {
        sizes.withLock { $0.map { (pack: $0.key, bytes: $0.value) } }.sorted { $0.pack < $1.pack }
    }

    var bytes: UInt64 { sizes.withLock { $0.values.reduce(0, +) } }

    func setSize(of pack: UInt32, _ size: UInt64) { sizes.withLock { $0[pack] = size } }

    func size(of pack: UInt32) -> UInt64? { sizes.withLock { $0[pack] } }

    /// Opens a pack for appending.
    func openForWriting(_ pack: UInt32, isNew: Bool) throws(Errno) -> PackFile {
        let file = try PackFile(
            pack, in: descriptor, flags: O_RDWR | (isNew ? O_CREAT | O_EXCL : 0))
        setSize(of: pack, try file.size())
        return file
    }

    /// Returns a pack that is open for reading.
    func file(_ pack: UInt32) throws(RecordFault) -> PackFile {
        let held = open.withLock { files -> PackFile? in
            guard let index = files.lastIndex(where: { $0.pack == pack }) else { return nil }
            if index != files.count - 1 { files.append(files.remove(at: index)) }
            return files.last
        }
        if let held { return held }
        do throws(Errno) {
            let file = try PackFile(pack, in: descriptor, flags: O_RDONLY)
            keep(file)
            return file
        } catch {
            throw error == .notFound ? .missing : .system(error)
        }
    }

    private func keep(_ file: PackFile) {
        open.withLock { files in
            if files.contains(where: { $0.pack == file.pack }) { return }
            if files.count == PackStore.Limits.openPacks { files.removeFirst() }
            files.append(file)
        }
    }

    /// Notes that there is another file for the pack now.
    func noteReplacement(of pack: UInt32, size: UInt64) {
        open.withLock { $0.removeAll { $0.pack == pack } }
        setSize(of: pack, size)
    }

    func remove(_ pack: UInt32) throws(VolumeError) {
        open.withLock { $0.removeAll { $0.pack == pack } }
        do throws(Errno) {
            try check(cl_unlinkat(descriptor.raw, packName(pack), 0))
        } catch {
            throw VolumeError(
                failure: error, "The pack \(packName(pack)) of \(path) cannot be removed")
        }
        sizes.withLock { $0[pack] = nil }
    }

    /// Syncs the directory, so that the names of new packs survive a loss of power.
    func sync() throws(Errno) { try descriptor.sync(dataOnly: false) }

    // MARK: Quarantine

    static let quarantine = "quarantine"

    /// The packs in quarantine and their sizes in bytes.
    func quarantinedPacks() throws(VolumeError) -> [UInt32: UInt64] {
        do throws(Errno) {
            return try listPacks(
                in: try Descriptor(
                    opening: PackDirectory.quarantine, in: descriptor.raw,
                    flags: O_RDONLY | O_DIRECTORY))
        } catch {
            if error == .notFound { return [:] }
            throw VolumeError(failure: error, "The quarantine of \(path) cannot be read")
        }
    }

    /// Moves a pack into the quarantine directory, where nothing reads or removes it.
    func quarantine(_ pack: UInt32) throws(VolumeError) {
        open.withLock { $0.removeAll { $0.pack == pack } }
        do throws(Errno) {
            let made = cl_mkdirat(descriptor.raw, PackDirectory.quarantine, 0o700)
            if made != -EEXIST { try check(made) }
            try move(pack, intoQuarantine: true)
        } catch {
            throw VolumeError(
                failure: error,
                "The pack \(packName(pack)) of \(path) cannot be moved into quarantine")
        }
        sizes.withLock { $0[pack] = nil }
    }

    /// Moves a pack back from quarantine.
    func restore(_ pack: UInt32) throws(VolumeError) {
        do throws(Errno) {
            try move(pack, intoQuarantine: false)
            var status = stat()
            try check(cl_fstatat(descriptor.raw, packName(pack), &status, AT_SYMLINK_NOFOLLOW))
            setSize(of: pack, UInt64(status.st_size))
        } catch {
            throw VolumeError(
                failure: error, "The pack \(packName(pack)) cannot be moved back into \(path)")
        }
    }

    private func move(_ pack: UInt32, intoQuarantine isEntering: Bool) throws(Errno) {
        let aside = try Descriptor(
            opening: PackDirectory.quarantine, in: descriptor.raw, flags: O_RDONLY | O_DIRECTORY)
        let name = packName(pack)
        let (source, target) =
            isEntering ? (descriptor.raw, aside.raw) : (aside.raw, descriptor.raw)
        try check(cl_renameat2(source, name, target, name, UInt32(RENAME_NOREPLACE)))
        try aside.sync(dataOnly: false)
        try sync()
    }
}

private func syncParent(of directory: borrowing Descriptor) throws(Errno) {
    try Descriptor(opening: "..", in: directory.raw, flags: O_RDONLY | O_DIRECTORY)
        .sync(dataOnly: false)
}

private func listPacks(in directory: borrowing Descriptor) throws(Errno) -> [UInt32: UInt64] {
    let copy = try Descriptor(opening: ".", in: directory.raw, flags: O_RDONLY | O_DIRECTORY)
    guard let stream = fdopendir(copy.release()) else { throw Errno(errno) }
    defer { closedir(stream) }
    var sizes: [UInt32: UInt64] = [:]
    while let entry = readdir(stream) {
        let name = withUnsafeBytes(of: &entry.pointee.d_name) {
            String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
        }
        guard name.utf8.count == 13, let pack = UInt32(name.prefix(8), radix: 16),
            name == packName(pack)
        else { continue }
        var status = stat()
        try check(cl_fstatat(directory.raw, name, &status, AT_SYMLINK_NOFOLLOW))
        sizes[pack] = UInt64(status.st_size)
    }
    return sizes
}
