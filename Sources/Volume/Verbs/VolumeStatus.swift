import CLinux
import Glibc
import Journal
import Model

/// The state of a volume.
package struct VolumeStatus: Sendable {
    package var name: String
    package var store: String
    /// The working tree's path.
    package var tree: String
    /// Whether the tree is being compared with the journal.
    package var scanning: Bool
    package var scanned: Int
    package var items: Int
    package var documents: Int
    package var versions: Int
    /// Events that the recorder has not processed yet, and documents that it has not recorded.
    package var pendingEvents: Int
    package var waitingToBeCut: Int
    /// The bytes of the store without the tree.
    package var storeBytes: Int64
    /// The parts of these that the journal takes, and that are reserved for it on a full disk.
    package var journalBytes: Int64
    package var reserveBytes: Int64
    /// The bytes that can be removed for programs that need space.
    package var freeableBytes: Int64
    /// Sentences for people about what is wrong.
    package var problems: [String]
    /// Sentences for people where nothing is wrong.
    package var notices: [String]
}

extension VolumeStatus {
    package init(of volume: Volume) throws(VolumeError) {
        var report = volume.recorder.reports.report
        report.problems.merge(report.losses.mapValues { RecorderProblem(words: $0) }) { $1 }
        let counts = try volume.journal.read { [report] reader in
            (
                items: try reader.itemCount(), documents: try reader.documentCount(),
                versions: try reader.versionCount(),
                problems: try report.problems.sorted { $0.key < $1.key }.map { (_, problem) in
                    try problem.sentence(reader)
                },
                waiting: try report.waiting.sorted { $0.key < $1.key }.map { (key, reason) in
                    try RecorderProblem(document: key, words: reason.words).sentence(reader)
                }
            )
        }
        (name, store) = (volume.identity.name, volume.identity.store)
        tree = store + "/tree"
        (scanning, scanned) = (report.isScanning, report.scannedItems)
        (items, documents, versions) = (counts.items, counts.documents, counts.versions)
        pendingEvents = Int(volume.events.total - report.eventsTaken)
        waitingToBeCut = report.pending
        journalBytes = ["", "-wal", "-shm"].reduce(0) { total, ending in
            total + Self.bytes(of: volume.store.journalPath + ending, in: AT_FDCWD)
        }
        reserveBytes = volume.store.reserve.size
        let stashBytes = ((try? volume.stash.entries()) ?? []).reduce(0) { total, entry in
            total + Self.bytes(of: entry.file, in: volume.stash.directory)
        }
        storeBytes = Int64(volume.packs.bytes()) + stashBytes + journalBytes + reserveBytes
        freeableBytes = volume.freeableBytes
        problems = counts.problems
        notices = [report.letGo, volume.pinned.notice].compactMap(\.self) + counts.waiting
    }

    /// What a file takes on the disk; 0 if it does not exist.
    private static func bytes(of file: String, in directory: Int32) -> Int64 {
        var status = stat()
        guard cl_fstatat(directory, file, &status, 0) == 0 else { return 0 }
        return Int64(status.st_blocks) * 512
    }
}
