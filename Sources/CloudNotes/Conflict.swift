import FileCoordination
import Foundation

/// One version of a note in conflict: the current one, or one that another device saved at the same
/// time.
struct Conflict: Sendable {
    let version: FileVersion
    let isCurrent: Bool
    let text: String

    /// Who saved the version, where and when.
    var origin: String {
        let device = version.localizedNameOfSavingComputer ?? "?"
        let time = version.modificationDate.map { date in
            let format = DateFormatter()
            format.dateFormat = "yyyy-MM-dd HH:mm:ss"
            return format.string(from: date)
        }
        return "\(version.originatorName ?? "?") on \(device), \(time ?? "?")"
    }

    enum Choice: Sendable {
        case current
        case other(FileVersion)
        /// The other version becomes a note of its own beside this one.
        case both(FileVersion)
    }
}

extension Note {
    /// The current version and those in conflict with it; empty when there is no conflict.
    @concurrent nonisolated func conflicts() async throws -> [Conflict] {
        try await FileCoordinator(filePresenter: self).coordinate(
            readingItemAt: fileURL, options: .withoutChanges
        ) { url in
            let others = try FileVersion.unresolvedConflictVersionsOfItem(at: url) ?? []
            guard !others.isEmpty, let current = try FileVersion.currentVersionOfItem(at: url)
            else {
                return []
            }
            return try ([current] + others).map { version in
                Conflict(
                    version: version, isCurrent: version == current,
                    text: try Note.text(of: version)
                )
            }
        }
    }

    nonisolated private static func text(of version: FileVersion) throws -> String {
        guard let url = version.url else { return "" }
        let wrapper = try FileWrapper(url: url)
        let file = wrapper.isDirectory ? wrapper.fileWrappers?["text.txt"] : wrapper
        return String(decoding: file?.regularFileContents ?? Data(), as: UTF8.self)
    }

    /// Settles the conflict on all devices. When both are kept, only the version that becomes a
    /// note of its own is settled; other versions stay in conflict.
    @concurrent nonisolated func settle(_ conflicts: [Conflict], _ choice: Conflict.Choice)
        async throws
    {
        try await autosave()
        let beside = fileURL.freeNameBeside
        try await FileCoordinator(filePresenter: self).coordinate(
            writingItemAt: fileURL, options: [], writingItemAt: beside, options: .forReplacing
        ) { url, beside in
            var settled = conflicts.filter { !$0.isCurrent }.map(\.version)
            switch choice {
            case .current: break
            case .other(let version): try version.replaceItem(at: url)
            case .both(let version):
                try version.replaceItem(at: beside)
                settled = [version]
            }
            for version in settled { try version.setResolved(true) }
        }
        try await revert(toContentsOf: fileURL)
    }
}

extension URL {
    /// `name 2.txt`, or the same with the next free number.
    fileprivate var freeNameBeside: URL {
        let stem = deletingPathExtension().lastPathComponent
        var number = 2
        while true {
            let url = deletingLastPathComponent()
                .appending(path: "\(stem) \(number).\(pathExtension)")
            if !FileManager.default.fileExists(atPath: url.path) { return url }
            number += 1
        }
    }
}
