import Foundation
import Model
import Volume

/// A hub that is a directory: `manifests/VERSION`, `chunks/DIGEST`, and files that say what is
/// wrong with it: `offline`, `hold` (no answer while it is there), `delay` (milliseconds), `spoil`
/// (short, long, empty, other, cut, missing). What it gives is noted in `log`.
final class HubDirectory: RemoteContents {
    let path: String

    init(path: String) { self.path = path }

    private func text(_ name: String) -> String? {
        (try? String(contentsOfFile: "\(path)/\(name)", encoding: .utf8))?
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    private func has(_ name: String) -> Bool {
        FileManager.default.fileExists(atPath: "\(path)/\(name)")
    }

    private func note(_ line: String) {
        let file = open("\(path)/log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        let bytes = Array((line + "\n").utf8)
        _ = write(file, bytes, bytes.count)
        close(file)
    }

    private func reach() throws(VolumeError) {
        while has("hold") { usleep(5_000) }
        if has("offline") { throw VolumeError(.offline, "The hub cannot be reached.") }
        if let delay = text("delay").flatMap({ UInt32($0) }) { usleep(delay * 1000) }
    }

    func manifest(of version: Identifier) throws(VolumeError) -> Manifest {
        note("manifest \(version)")
        try reach()
        let bytes = try? Data(contentsOf: URL(filePath: "\(path)/manifests/\(version)"))
        guard let bytes, let manifest = Manifest(encoded: Array(bytes)) else {
            throw VolumeError(.notFound, "The hub has no version \(version).")
        }
        return manifest
    }

    func chunks(
        _ references: [ChunkReference], of version: Identifier,
        each: (Int, [UInt8]) throws(VolumeError) -> Void
    ) throws(VolumeError) {
        note("chunks \(references.count)")
        try reach()
        let spoil = text("spoil")
        for (index, reference) in references.enumerated() {
            if spoil == "missing" { continue }
            if spoil == "cut", index > 0 || references.count == 1 {
                throw VolumeError(.offline, "The link was cut.")
            }
            let data = try? Data(contentsOf: URL(filePath: "\(path)/chunks/\(reference.id)"))
            guard var bytes = data.map({ Array($0) }) else {
                throw VolumeError(.notFound, "The hub has no chunk \(reference.id).")
            }
            switch spoil {
            case "short": bytes.removeLast()
            case "long": bytes.append(0)
            case "empty": bytes = []
            case "other": bytes[0] ^= 1
            default: note("chunk \(bytes.count)")
            }
            try each(index, bytes)
        }
    }

    func put(_ manifest: Manifest, of version: Identifier) throws {
        try FileManager.default.createDirectory(
            atPath: "\(path)/manifests", withIntermediateDirectories: true)
        try Data(manifest.encoded).write(to: URL(filePath: "\(path)/manifests/\(version)"))
    }

    func put(_ bytes: [UInt8], as id: Digest) throws {
        try FileManager.default.createDirectory(
            atPath: "\(path)/chunks", withIntermediateDirectories: true)
        if has("chunks/\(id)") { return }
        try Data(bytes).write(to: URL(filePath: "\(path)/chunks/\(id)"), options: .atomic)
    }
}
