import CLinux
import ChunkStore
import Foundation
import Glibc
import Journal
import Model
import SystemCalls
import Testing

@testable import Volume

let applier = Program(process: 99, name: "concord")

// Applies changes from the hub without a mount.
extension ProgramTree {
    /// A file as another device would have sent it.
    func arrival(
        _ bytes: [UInt8], item: Identifier = .random(), parents: [Identifier] = [],
        isDataless: Bool = false
    ) throws -> Arrival {
        let cut = try CutContent(Manifest(chunks: chunks(of: bytes)))
        return Arrival(
            item: item, kind: .file, version: version(cut, parents),
            manifest: cut.manifest.encoded, isDataless: isDataless, mode: 0o640)
    }

    func chunks(of bytes: [UInt8]) throws -> [ChunkReference] {
        let scratch = Scratch()
        let path = scratch.path + "/bytes"
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        let file = try Descriptor(opening: path, flags: O_RDONLY)
        return try cutFile(file.raw, size: Int64(bytes.count))
    }

    private func version(_ cut: CutContent, _ parents: [Identifier]) -> Version {
        Version(
            number: 0, parents: parents, device: .random(), deviceName: "other", person: "ann",
            program: "editor", name: Name("a"), size: cut.manifest.size,
            modified: 1_700_000_000_123_456_789, saved: 1_700_000_001_000_000_000,
            content: cut.digest, durability: .hub)
    }

    /// A package with these files and directories (nil), by path.
    func packageArrival(
        _ files: [(String, [UInt8]?)], item: Identifier = .random(), parents: [Identifier] = []
    ) throws -> Arrival {
        var entries: [Manifest.Entry] = []
        for (path, bytes) in files.sorted(by: { $0.0 < $1.0 }) {
            guard let bytes else {
                entries.append(.init(path: Array(path.utf8), kind: .directory, mode: 0o755))
                continue
            }
            entries.append(
                .init(
                    path: Array(path.utf8), mode: 0o600, modified: 1_600_000_000_000_000_000,
                    size: UInt64(bytes.count), chunks: try chunks(of: bytes)))
        }
        let cut = CutContent(Manifest(entries: entries))
        return Arrival(
            item: item, kind: .package, version: version(cut, parents),
            manifest: cut.manifest.encoded)
    }

    func prepare(_ arrival: Arrival, _ contents: [UInt8]...) throws -> String {
        let all = try contents.map { (try chunks(of: $0), $0) }
        return try volume.arrivals.prepare(arrival) { (chunks, file) throws(VolumeError) in
            let bytes = all.first { $0.0 == chunks }?.1 ?? []
            let count = bytes.withUnsafeBytes { cl_pwrite(file, $0.baseAddress, $0.count, 0) }
            guard count == bytes.count else { throw VolumeError(.system, "\(count)") }
        }
    }

    /// Does what the applier's rename does.
    func bring(_ incoming: String, to path: String, flags: Int32 = 0) throws {
        try incoming.withCString { text in
            let from = Place(
                descriptor: volume.arrivals.directory, inode: volume.incoming.inode, name: text)
            try withPlace(path) { to in
                _ = try volume.names.rename(
                    from: from, to: to, flags: UInt32(flags), moved: status(from)!,
                    replaced: status(to), movedTraits: [], replacedTraits: [],
                    by: applier.actor)
            }
        }
    }

    /// Prepares an arrival and puts it into the tree.
    func arrive(_ bytes: [UInt8], _ arrival: Arrival, at path: String) throws {
        try bring(try prepare(arrival, bytes), to: path)
    }

    func item(_ path: String) throws -> Item? {
        try volume.journal.read { reader in
            var item = try reader.item(Item.root)
            for name in names(path) {
                item = try item.flatMap { try reader.item(parent: $0.key, name: name) }
            }
            return item
        }
    }

    func kinds(_ path: String) throws -> [Version.Kind] {
        try volume.history.document(at: names(path))?.versions.map(\.kind) ?? []
    }

    func hasMark(_ path: String) throws -> Bool {
        let file = try Descriptor(opening: real(path), flags: O_RDONLY)
        return ArrivalTag(of: file.raw) != nil
    }
}
