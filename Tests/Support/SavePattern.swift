import CLinux
import Foundation
import Glibc
import SystemCalls

/// The ways in which programs save a document.
package enum SavePattern: CaseIterable, Sendable {
    /// Truncate and write: nano, `>`.
    case inPlace
    /// Write a draft and rename it over the original: most programs.
    case replace
    /// Rename the original to a backup, create the file again, remove the backup: vim.
    case backupAndRemove
    /// Rename the original to a backup that stays, create the file again: emacs.
    case backup
    /// Exchange a draft with the original, and remove the draft's name.
    case exchange
    /// Unlink and create: cp --remove-destination.
    case unlinkAndCreate

    /// The places where the contents can be during such a save.
    package static func places(of path: String) -> [String] { [path, path + "~", draft(of: path)] }

    private static func draft(of path: String) -> String { path + ".draft" }

    /// Saves, with a sync before the close if requested. Throws at the first error.
    package func save(_ bytes: Data, to path: String, synced: Bool) throws(Errno) {
        let draft = Self.draft(of: path)
        let exists = access(path, F_OK) == 0
        switch self {
        case .inPlace: try write(bytes, to: path, O_CREAT | O_TRUNC, synced)
        case .replace:
            try write(bytes, to: draft, O_CREAT | O_TRUNC, synced)
            try call(rename(draft, path))
        case .backupAndRemove, .backup:
            if exists { try call(rename(path, path + "~")) }
            try write(bytes, to: path, O_CREAT | O_EXCL, synced)
            if exists && self == .backupAndRemove { try call(unlink(path + "~")) }
        case .exchange:
            try write(bytes, to: draft, O_CREAT | O_TRUNC, synced)
            guard exists else { return try call(rename(draft, path)) }
            try check(cl_renameat2(AT_FDCWD, draft, AT_FDCWD, path, 2))
            try call(unlink(draft))
        case .unlinkAndCreate:
            if exists { try call(unlink(path)) }
            try write(bytes, to: path, O_CREAT | O_EXCL, synced)
        }
    }

    private func write(
        _ bytes: Data, to path: String, _ flags: Int32, _ synced: Bool
    ) throws(Errno) {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | flags, 0o644)
        try call(descriptor)
        var failed: Errno?
        let written = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
        if written != bytes.count { failed = Errno(written < 0 ? errno : EIO) }
        if failed == nil && synced && fsync(descriptor) != 0 { failed = Errno(errno) }
        if close(descriptor) != 0 && failed == nil { failed = Errno(errno) }
        if let failed { throw failed }
    }

    private func call(_ result: Int32) throws(Errno) {
        if result < 0 { throw Errno(errno) }
    }
}
