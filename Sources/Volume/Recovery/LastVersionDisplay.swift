import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// Shows the last version of a document whose file holds none of its contents, or has lost its end.
struct LastVersionDisplay {
    let volume: Volume

    /// Turns a file that holds none of its document's contents into a placeholder of its last
    /// version. If a program has it open, the recorder tries again later.
    func show(_ key: Int64) {
        do {
            let found = try volume.journal.read { reader -> (Item, Version, [Name])? in
                guard let item = try reader.item(key), item.kind == .file, item.deleted == nil,
                    let current = item.current,
                    let version = try reader.version(id: current)?.version,
                    let path = try reader.path(of: key)
                else { return nil }
                return (item, version, path)
            }
            guard let (item, version, path) = found else { return }
            let file = try openBeneath(
                path, from: volume.root, flags: O_RDWR | O_NOATIME | O_NONBLOCK)
            let mark = PlaceholderMark(item: item.id, version: version.id)
            let isAlone = try volume.hydration.evicting(item.inode) { () throws(VolumeError) in
                try replace(file.raw, of: item, by: version, mark)
            }
            guard isAlone else { return }
            volume.log.warning(
                """
                What was saved or arrived in \(path.shown) shortly before the end of the last run \
                did not reach the disk. It shows its version \(version.number) again.
                """)
            volume.recorder.isReady(key)
        } catch { volume.log.info("\(error) This will be tried again.") }
    }

    private func replace(
        _ file: Int32, of item: Item, by version: Version, _ mark: PlaceholderMark
    ) throws(VolumeError) {
        let now = volume.snapshot(file)
        guard now.inode == item.inode, volume.openFiles.current?(item.inode) != true,
            cl_probe_users(file) != -EAGAIN
        else { throw VolumeError(.busy, "\(item.name) is in use.") }
        do throws(Errno) {
            if hasLostContents(file, now, of: item, version) {
                if now.size > 0 {
                    _ = try mark.replaceBytes(of: file, size: now.size, modified: version.modified)
                }
                try Volume.mark(
                    absent: file, mark, size: version.size, modified: version.modified,
                    mode: UInt16(truncatingIfNeeded: now.permissions))
            } else if let loss = volume.recorder.powerLoss, PlaceholderMark(of: file) == nil,
                loss.mayHaveLostEnd(file, now), version.size < UInt64(now.size)
            {
                try check(cl_ftruncate(file, Int64(version.size)))
                try PlaceholderMark.restore(version.modified, of: file)
            } else {
                throw Errno(EBUSY)
            }
            try check(cl_fsync(file, 0))
        } catch {
            throw VolumeError(.system, "\(item.name) cannot show its last version: \(error).")
        }
    }

    /// Whether the file holds none of its document's contents: a loss of power destroyed them, or
    /// it is a placeholder of another version.
    private func hasLostContents(
        _ file: Int32, _ snapshot: FileSnapshot, of item: Item, _ version: Version
    ) -> Bool {
        if let mark = PlaceholderMark(of: file, size: snapshot.size) {
            return mark.item == item.id && mark.version != version.id
        }
        guard let loss = volume.recorder.powerLoss else { return false }
        return loss.destroyed(file, snapshot) || loss.mayHaveEmptied(snapshot) && version.size > 0
    }
}
