import Journal
import Model

/// The changes that the recording of one document commits.
struct Recording {
    var item: Item
    var versions: [(version: Version, manifest: [UInt8])] = []
    /// New protections of versions that the journal has already.
    var protections: [Identifier: Protection] = [:]
    /// Versions that are no longer current.
    var outdated: [Identifier] = []
    /// The current version, if the next one is saved by a program that has not seen it, and what
    /// that program had seen. The current one becomes a conflict version then.
    var unseen: (version: Identifier, base: Version?)?
    /// Versions that the journal has already and that became conflict versions.
    var conflicts: [Identifier] = []
    /// Conflict versions that are merged only when a person asks for it.
    var apart: [Identifier] = []
    /// Versions whose bytes were overwritten while the volume was not mounted.
    var lost: [Version] = []
    /// The pending document as it was when recording began.
    var work: PendingDocument
    /// Prior contents that programs are still writing, which are recorded later.
    var rest: [PriorContent] = []
    var isLiveDeferred = false
    /// Set if the tree has a placeholder of the current version.
    var absent: LivePlaceholder?
    var keptTrace: FileSnapshot?
    /// A message for people once this is committed. It would be premature before, because a change
    /// in the meantime may be the cause.
    var problem: String?
    /// Why the file as it is gets no version, which ends when it is saved: words that follow its
    /// path.
    var obstacle: String?
}

extension Recording {
    /// The current version always has the document's protection. So contents that were made private
    /// before they were replaced stay private.
    mutating func protect(_ current: Version?, as protection: Protection) {
        guard let current else { return }
        if let index = versions.firstIndex(where: { $0.version.id == current.id }) {
            versions[index].version.protection = protection
        } else if protections[current.id] ?? current.protection != protection {
            protections[current.id] = protection
        }
    }
}
