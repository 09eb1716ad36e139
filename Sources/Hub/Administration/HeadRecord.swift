import CLinux
import Foundation
import Glibc
import Model
import SystemCalls

/// Records outside of the ledger how long each volume's journal was. A ledger whose journal is
/// shorter was restored from a backup. The file has one line for each volume: id, epoch, head.
struct HeadRecord: Sendable {
    let path: String

    struct Entry: Hashable, Sendable {
        let volume: Identifier
        let epoch: Identifier
        let head: UInt64
    }

    /// Returns no entries if the file does not exist or cannot be read.
    func read() -> [Entry] {
        guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return [] }
        return text.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ").map(String.init)
            guard words.count == 3, let volume = Identifier(words[0]),
                let epoch = Identifier(words[1]), let head = UInt64(words[2])
            else { return nil }
            return Entry(volume: volume, epoch: epoch, head: head)
        }
    }

    func write(_ volumes: [VolumeRow]) throws(Errno) {
        let text = volumes.map { "\($0.id) \($0.epoch) \($0.head)\n" }.joined()
        let file = try Descriptor(
            opening: path + ".new", flags: O_WRONLY | O_CREAT | O_TRUNC, mode: 0o600)
        let written = Array(text.utf8).withUnsafeBytes { bytes in
            Result { () throws(Errno) in try file.write(bytes, at: 0) }
        }
        try written.get()
        try file.sync()
        try check(cl_renameat2(AT_FDCWD, path + ".new", AT_FDCWD, path, 0))
    }

    /// Returns the volumes whose journal in the ledger is shorter than the recorded one.
    func restored(_ volumes: [VolumeRow]) -> [VolumeRow] {
        let heads = Dictionary(
            read().map { ($0.volume, $0) }, uniquingKeysWith: { first, _ in first })
        return volumes.filter { volume in
            guard let seen = heads[volume.id] else { return false }
            return seen.epoch == volume.epoch && seen.head > volume.head
                && !PlantedFault.trustsRestoredHub.isPlanted
        }
    }
}
