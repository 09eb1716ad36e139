import Control
import Foundation
import Glibc
import Model

/// Notes what a save keeps beside a package of a volume: first the draft, and then, once the two
/// are exchanged, the replaced package. If the saving process ends before the save does, the next
/// save finds it, or the next `Document` that opens the package. Replaced contents that are not a
/// version yet become one then; nothing else is needed any more.
///
/// The note is a symbolic link that cannot be followed: the name of what is kept, a slash, and the
/// base of the save. Its own name says which of the two it may be.
struct PackageSave {
    private let package: MountedPath
    private let draftNote: FilePath
    private let replacedNote: FilePath

    /// Nil for anything but a package of a volume.
    init?(of path: FilePath) throws(FileCoordinationError) {
        guard path.kind == .directory, let place = try path.place() else { return nil }
        package = place
        func note(_ state: String) -> FilePath {
            let name = Array(".#".utf8) + path.name.bytes + Array(".\(state)".utf8)
            return path.parent.appending(Name(bytes: name))
        }
        (draftNote, replacedNote) = (note("draft"), note("replaced"))
    }

    /// A save begins to write `draft`. It goes on without a note if there can be none, because the
    /// name is too long for example.
    func begin(_ draft: FilePath, madeFrom base: FileStamp) {
        guard let base = base.packageBase else { return }
        let text = Name(bytes: draft.name.bytes + [UInt8(ascii: "/")] + Array(base.utf8))
        _ = text.withCString { text in draftNote.withCString { symlink(text, $0) } }
    }

    /// From now on the draft's name may be that of the replaced package.
    func willExchange() { rename(draftNote, to: replacedNote) }

    /// The replaced contents are versions, or the draft is a draft again.
    func didKeep() { rename(replacedNote, to: draftNote) }

    func end() { _ = draftNote.withCString { unlink($0) } }

    private func rename(_ from: FilePath, to: FilePath) {
        _ = from.withCString { from in to.withCString { Glibc.rename(from, $0) } }
    }

    /// Ends the save of a process that could not end it itself. The caller has a claim on the
    /// package, so no process is saving it.
    func recover() throws {
        if let (kept, base) = kept(replacedNote) {
            if kept.kind == .directory { try kept.keepUnseen(as: package, unseenBy: base) }
            didKeep()
        }
        if let (kept, _) = kept(draftNote) {
            kept.remove()
            end()
        }
    }

    private func kept(_ note: FilePath) -> (FilePath, base: String)? {
        guard let text = note.linkTarget?.bytes, text.starts(with: Array(".#".utf8)),
            let slash = text.firstIndex(of: UInt8(ascii: "/"))
        else { return nil }
        let name = Name(bytes: Array(text[..<slash]))
        return (note.parent.appending(name), String(decoding: text[(slash + 1)...], as: UTF8.self))
    }
}
