import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// Shows the last version of a document whose file holds none of its contents, or has lost its end,
/// and of such files in a package.
struct LastVersionDisplay {
    let volume: Volume

    /// Turns a file that holds none of its document's contents into a placeholder of its last
    /// version. If a program has it open, the recorder tries again later.
    func show(_ key: Int64) {
        do {
            let found = try volume.journal.read { reader -> (Item, Version, [Name])? in
                guard let item = try reader.item(key), item.deleted == nil,
                    item.kind == .file || item.kind == .package,
                    let current = item.current,
                    let version = try reader.version(id: current)?.version,
                    let path = try reader.path(of: key)
                else { return nil }
                return (item, version, path)
            }
            guard let (item, version, path) = found else { return }
            if item.kind == .package { return try showFiles(of: item, version, at: path) }
            let file = try openBeneath(
                path, from: volume.root, flags: O_RDWR | O_NOATIME | O_NONBLOCK)
            let mark = PlaceholderMark(item: item.id, version: version.id)
            let isAlone = try volume.hydration.evicting(item.inode) { () throws(VolumeError) in
                try replace(file.raw, of: item, by: version, mark)
            }
            guard isAlone else { return }
            volume.changedFiles.current?(item.inode)
            volume.log.warning(
                """
                What was saved or arrived in \(path.shown) shortly before the end of the last run \
                did not reach the disk. It shows its version \(version.number) again.
                """)
            volume.recorder.isReady(key)
        } catch { volume.log.info("\(error) This will be tried again.") }
    }

    /// Shows files of a package's last version again of which a loss of power destroyed the
    /// contents or the end (`PackageBuilder.files(toShowAgain:)`).
    private func showFiles(of item: Item, _ version: Version, at path: [Name]) throws {
        let bytes = try volume.journal.read { try $0.manifest(of: version.id) }
        guard let loss = volume.recorder.powerLoss, let bytes,
            let manifest = Manifest(encoded: bytes)
        else { return }
        let root = try openBeneath(path, from: volume.root, flags: O_PATH | O_DIRECTORY)
        var builder = PackageBuilder(
            known: [:], manifest, unchangedSince: item.changed,
            LostPackageFiles(loss, manifest))
        try builder.add(directory: root.raw, path: [])
        if let failure = builder.failure { throw failure }
        guard !builder.isBusy else { throw VolumeError(.busy, "\(item.name) is in use.") }
        let lost = builder.files(toShowAgain: manifest)
        for entry in manifest.entries {
            guard let kind = lost[entry.path] else { continue }
            let file = try openBeneath(
                entry.names, from: root.raw, flags: O_RDWR | O_NOATIME | O_NONBLOCK)
            let seen = FileSnapshot(of: file.raw)
            let isAlone = try volume.hydration.evicting(seen.inode) { () throws(VolumeError) in
                try checkUnused(file.raw, seen, item)
                guard !FileSnapshot(of: file.raw).differs(from: seen) else {
                    throw VolumeError(.busy, "\(item.name) is in use.")
                }
                do throws(Errno) {
                    switch kind {
                    case .unfinished: break
                    case .excess: try cut(file.raw, to: entry.size, modified: entry.modified)
                    case .contents:
                        let mark = PlaceholderMark(item: item.id, version: version.id)
                        try empty(
                            file.raw, seen, mark, size: entry.size, modified: entry.modified)
                        try check(cl_fsync(file.raw, 0))
                    }
                } catch { throw failure(item, error) }
            }
            guard isAlone else { return }
            volume.changedFiles.current?(seen.inode)
            volume.log.warning(
                """
                What was saved in \((path + entry.names).shown) shortly before the end of the last \
                run did not reach the disk. The file is as in version \(version.number).
                """)
        }
        volume.recorder.isReady(item.key)
    }

    private func checkUnused(_ file: Int32, _ snapshot: FileSnapshot, _ item: Item)
        throws(VolumeError)
    {
        guard volume.openFiles.current?(snapshot.inode) != true, cl_probe_users(file) != -EAGAIN
        else { throw VolumeError(.busy, "\(item.name) is in use.") }
    }

    private func cut(_ file: Int32, to size: UInt64, modified: Int64) throws(Errno) {
        try check(cl_ftruncate(file, Int64(size)))
        try PlaceholderMark.restore(modified, of: file)
        try check(cl_fsync(file, 0))
    }

    /// Turns a file into a placeholder.
    private func empty(
        _ file: Int32, _ snapshot: FileSnapshot, _ mark: PlaceholderMark, size: UInt64,
        modified: Int64
    ) throws(Errno) {
        if snapshot.size > 0 {
            _ = try mark.replaceBytes(of: file, size: snapshot.size, modified: modified)
        }
        try mark.makePlaceholder(
            of: file, size: size, modified: modified,
            mode: UInt16(truncatingIfNeeded: snapshot.permissions))
    }

    private func failure(_ item: Item, _ error: Errno) -> VolumeError {
        VolumeError(.system, "\(item.name) cannot show its last version: \(error).")
    }

    private func replace(
        _ file: Int32, of item: Item, by version: Version, _ mark: PlaceholderMark
    ) throws(VolumeError) {
        let now = FileSnapshot(of: file)
        guard now.inode == item.inode else {
            throw VolumeError(.busy, "\(item.name) is in use.")
        }
        try checkUnused(file, now, item)
        let hasLostEnd = hasLostEnd(file, now, version)
        let begins = hasLostEnd ? try self.begins(file, with: version) : false
        do throws(Errno) {
            if hasLostContents(file, now, of: item, version) || hasLostEnd && !begins {
                try empty(file, now, mark, size: version.size, modified: version.modified)
            } else if hasLostEnd {
                try cut(file, to: version.size, modified: version.modified)
            } else {
                throw Errno(EBUSY)
            }
            try check(cl_fsync(file, 0))
        } catch {
            throw failure(item, error)
        }
    }

    private func hasLostEnd(_ file: Int32, _ now: FileSnapshot, _ version: Version) -> Bool {
        guard let loss = volume.recorder.powerLoss, PlaceholderMark(of: file) == nil,
            version.size < UInt64(now.size)
        else { return false }
        return loss.mayHaveLostEnd(file, now)
            || loss.mayHaveLostEnd(file, now, beyond: version.size)
    }

    private func begins(_ file: Int32, with version: Version) throws(VolumeError) -> Bool {
        guard let size = Int64(exactly: version.size) else { return false }
        return try LostContents.content(of: file, size: size) == version.content
    }

    /// Whether the file holds none of its document's contents: a loss of power destroyed them, or
    /// it is a placeholder of another version.
    private func hasLostContents(
        _ file: Int32, _ snapshot: FileSnapshot, of item: Item, _ version: Version
    ) -> Bool {
        if let mark = PlaceholderMark(of: file, size: snapshot.size) {
            return mark.isUnknown || mark.item == item.id && mark.version != version.id
        }
        guard let loss = volume.recorder.powerLoss else { return false }
        return loss.destroyed(file, snapshot) || loss.mayHaveEmptied(snapshot) && version.size > 0
    }
}
