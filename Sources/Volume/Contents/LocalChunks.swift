import CLinux
import ChunkStore
import Journal
import Model
import SystemCalls

/// The chunks of a document that are on this device, in the chunk store or in its file in the tree.
/// They are used to assemble another version of it; each is verified when it is read.
package final class LocalChunks {
    private let volume: Volume
    private var places: [Digest: (file: [Name], offset: Int64)] = [:]
    private let path: [Name]
    private var opened: Opened?

    private final class Opened {
        let file: [Name]
        let descriptor: Descriptor

        init(_ file: [Name], _ descriptor: consuming Descriptor) {
            self.file = file
            self.descriptor = descriptor
        }
    }

    /// Finds the chunks of the item's current version; `key` is nil if there is no item.
    package init(_ volume: Volume, item key: Int64?) {
        self.volume = volume
        guard let key else {
            path = []
            return
        }
        let found = try? volume.journal.read { reader -> ([Name], Manifest)? in
            guard let item = try reader.item(key), item.deleted == nil,
                let current = item.current, let bytes = try reader.manifest(of: current),
                let manifest = Manifest(encoded: bytes), let path = try reader.path(of: key)
            else { return nil }
            return (path, manifest)
        }
        guard let (path, manifest) = found else {
            self.path = []
            return
        }
        self.path = path
        for entry in manifest.entries {
            let file = entry.path.split(separator: UInt8(ascii: "/")).map { Name(bytes: $0) }
            var offset: Int64 = 0
            for chunk in entry.chunks {
                places[chunk.id] = (file, offset)
                offset += Int64(chunk.length)
            }
        }
    }

    /// Returns nil if the chunk is not on this device.
    package func bytes(of chunk: ChunkReference) -> [UInt8]? {
        if let place = try? volume.journal.read({ try $0.place(of: chunk.id) }),
            let bytes = try? volume.packs.read(chunk.id, at: place)
        {
            return bytes
        }
        guard let place = places[chunk.id], let file = open(place.file) else { return nil }
        let content = FileContent(descriptor: file.descriptor.raw)
        var bytes = [UInt8](repeating: 0, count: Int(chunk.length))
        let count = try? bytes.withUnsafeMutableBytes {
            try content.read(into: $0, at: place.offset)
        }
        guard count == bytes.count, Digest.sha256(bytes) == chunk.id else { return nil }
        return bytes
    }

    private func open(_ file: [Name]) -> Opened? {
        if let opened, opened.file == file { return opened }
        guard let descriptor = try? openForReading(path + file, beneath: volume.root) else {
            return nil
        }
        opened = Opened(file, descriptor)
        return opened
    }
}

extension Manifest {
    /// The digest of the manifest's content form, which is equal for versions with equal contents.
    package var digest: Digest { CutContent(self).digest }
}
