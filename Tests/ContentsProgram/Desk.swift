import CLinux
import Foundation
import Glibc
import Journal
import Logging
import Model
import Mount
import SystemCalls
import Volume

/// What the commands do.
final class Desk: @unchecked Sendable {
    let volume: Volume
    let session: MountSession
    let hub: HubDirectory

    init(store: String, mountPoint: String, hub: HubDirectory, options: [String]) throws {
        self.hub = hub
        var settings = Settings()
        settings.settleSeconds = 0.05
        settings.postponeSeconds = 0.05
        var mount = MountOptions()
        for option in options.flatMap({ $0.split(separator: ",") }) {
            let parts = option.split(separator: "=").map(String.init)
            switch parts[0] {
            case "passthrough": break
            case "uring": mount.rings = true
            case "nouring": mount.rings = false
            case "nopassthrough": mount.passthrough = false
            case "timeout": settings.fetchSeconds = Double(parts[1])!
            case "cache": settings.cacheBytesMax = Int64(parts[1])!
            default: fatalError("no option \(option)")
            }
        }
        settings.evictionSeconds = 3600
        volume = try Volume.open(store: store, settings: settings, log: Logger(label: "volume"))
        volume.downloads.setRemote(hub)
        try volume.journal.write { t in
            try t.setCurrentHub(
                volume: Identifier(high: 1, low: 1), epoch: Identifier(high: 1, low: 2))
        }
        session = try MountSession(
            volume: volume, source: store, mountPoint: mountPoint, options: mount)
        volume.start()
    }

    func answer(_ words: [String]) -> String {
        do {
            return "ok " + (try obey(words))
        } catch let error as VolumeError {
            return "error \(error.code) \(error.message)"
        } catch {
            return "error other \(error)"
        }
    }

    private func obey(_ words: [String]) throws -> String {
        let path = words.dropFirst().first?.split(separator: "/").map { Name(String($0)) } ?? []
        switch words.first {
        case "keep": return try keep(path)
        case "unlist":
            let version = try current(path)
            let unknown = Digest(.keyed, words: (0, 0, 0, 0))
            try volume.journal.write {
                try $0.setManifest([], content: unknown, of: version)
            }
            return ""
        case "evict":
            let report = try volume.eviction.evict(at: path, forced: words.last == "force")
            return "\(report.items) \(report.bytes) \(report.kept.count)"
        case "hydrate":
            var last = ContentsProgress()
            try volume.downloads.hydrate(at: path) {
                last = $0
                return true
            }
            return "\(last.items) \(last.bytes)"
        case "online": volume.downloads.setRemote(hub)
        case "pin": try volume.downloads.pin(at: path)
        case "unpin": try volume.downloads.unpin(at: path)
        case "dataless": return "\(try volume.downloads.isDataless(at: path))"
        case "place": return try place(path[0], chunks: Int(words[2])!, real: Int(words[3])!)
        case "excess": return "\(try volume.eviction.evictExcess())"
        case "doctor":
            return Examination.findings(in: volume, repair: false) { _, _ in }
                .map { "[\($0.severity): \($0.message)]" }.joined(separator: " ")
        default: return "what?"
        }
        return ""
    }

    private func current(_ path: [Name]) throws -> Identifier {
        let history = try volume.history.document(at: path)
        guard let version = history?.versions.last(where: { $0.kind == .current }) else {
            throw VolumeError(.notFound, "no version")
        }
        return version.id
    }

    private func keep(_ path: [Name]) throws -> String {
        try volume.safety.wait(for: .disk, at: path, timeoutSeconds: 30)
        let version = try current(path)
        let content = try volume.versions.content(of: version)
        for (index, entry) in content.manifest.entries.enumerated() {
            var offset: Int64 = 0
            for chunk in entry.chunks {
                var bytes = [UInt8](repeating: 0, count: Int(chunk.length))
                let at = offset
                _ = try bytes.withUnsafeMutableBytes {
                    try content.read(index, into: $0, at: at)
                }
                try hub.put(bytes, as: chunk.id)
                offset += Int64(chunk.length)
            }
        }
        try hub.put(content.manifest, of: version)
        try volume.journal.write { try $0.setDurability([version], to: .hub) }
        return "\(version)"
    }

    private func place(_ name: Name, chunks: Int, real: Int) throws -> String {
        // Otherwise the first comparison of the tree may find the file before its item is made.
        try volume.safety.wait(for: .disk, at: [], timeoutSeconds: 30)
        let length = 4 << 20
        var references: [ChunkReference] = []
        for index in 0..<chunks {
            guard index < real else {
                references.append(
                    ChunkReference(
                        id: .sha256(Array("\(name.text) \(index)".utf8)), length: UInt32(length)))
                continue
            }
            let bytes = (0..<length / 8).flatMap { _ in
                withUnsafeBytes(of: UInt64.random(in: 1 ... .max)) { Array($0) }
            }
            let id = Digest.sha256(bytes)
            try hub.put(bytes, as: id)
            references.append(ChunkReference(id: id, length: UInt32(length)))
        }
        let manifest = Manifest(chunks: references, modified: 1_700_000_000_123_456_789)
        var item = Item(parent: Item.root, name: name, kind: .file, size: manifest.size)
        let version = Version(
            number: 1, device: .random(), deviceName: "other", person: "somebody",
            program: "writer", name: name, size: manifest.size,
            modified: 1_700_000_000_123_456_789, saved: 1_700_000_000_123_456_789,
            content: .sha256(manifest.contentForm), durability: .hub)
        try hub.put(manifest, of: version.id)
        let tree = volume.identity.store + "/tree/" + name.text
        let file = try Descriptor(
            opening: tree, flags: O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode: 0o644)
        try PlaceholderMark(item: item.id, version: version.id).makePlaceholder(
            of: file.raw, size: manifest.size,
            modified: version.modified, mode: 0o644)
        let snapshot = FileSnapshot(try file.status())
        (item.inode, item.modified, item.changed) = (
            snapshot.inode, snapshot.modified, snapshot.changed
        )
        (item.latest, item.current) = (1, version.id)
        try volume.journal.write { [item] t in
            let key = try t.insert(item)
            try t.insert(version, of: key, manifest: [])
            try t.setAbsent(key, version: version.id)
        }
        var above = stat()
        guard stat(volume.identity.store + "/tree", &above) == 0 else { throw Errno(errno) }
        session.changed([DirectoryEntry(directory: UInt64(above.st_ino), name: name)])
        return "\(version.id)"
    }
}
