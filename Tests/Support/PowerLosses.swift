import Foundation
import Glibc

/// Takes images of a disk at random moments under load, as a loss of power would leave it. For each
/// image it checks whether the volume mounts, is sound, and has everything that was promised.
package struct PowerLosses {
    private var random: SeededRandom
    private let options: [String]

    package init(random: SeededRandom, options: [String] = []) {
        (self.random, self.options) = (random, options)
    }

    /// Takes that many images and throws all faults that were found.
    package mutating func run(
        images count: Int, on disks: [LoopDisk.Kind] = LoopDisk.Kind.allCases
    ) throws {
        var faults: [String] = []
        var taken = 0
        let kinds = disks.filter(\.isPossible)
        var turn = random.below(kinds.count)
        while taken < count {
            // The load fills a disk, so each disk is used for a few images only. Each kind of file
            // system has its turn.
            let images = min(3, count - taken)
            let kind = kinds[turn % kinds.count]
            turn += 1
            faults += try runOnOneDisk(kind, images: images, from: taken).map { "\(kind): \($0)" }
            taken += images
        }
        guard faults.isEmpty else {
            throw SupportError(
                "CONCORD_SEED=\(random.seed), \(faults.count) faults in \(count) images:\n"
                    + faults.prefix(20).joined(separator: "\n"))
        }
    }

    private mutating func runOnOneDisk(
        _ kind: LoopDisk.Kind, images: Int, from first: Int
    ) throws -> [String] {
        // The least that mkfs.xfs takes are 300 MB.
        let disk = try VolatileDisk(kind, megabytes: kind == .ext4 ? 256 : 512)
        var losses: [Loss] = []
        try MountedVolume.with(store: "\(disk.path)/store", options: options) { volume in
            for number in first..<(first + images) {
                let package = try PackageLoad(
                    path: "\(volume.path)/packages \(number)/p.pages", random: random.fork())
                let databases = try DatabaseLoad(in: "\(volume.path)/databases \(number)")
                let load = try KillLoad.started(
                    in: "\(volume.path)/load \(number)", random: &random, microseconds: 600_000)
                let promised = load.writers.map { Promises(of: $0) }
                let members = package.members
                let rows = try databases.promised()
                let image = try disk.imageAfterPowerLoss(seed: random.next())
                try load.stop()
                try package.stop()
                try databases.stop()
                losses.append(
                    Loss(
                        number: number, image: image, promised: promised, members: members,
                        rows: rows,
                        attempted: load.writers.map { Promises(of: $0) },
                        renamer: load.renamer.name))
            }
        }
        // The images are checked after that, because a copy of a store must not be mounted beside
        // the original.
        disk.unmount()
        return losses.flatMap { loss in
            let name = "image \(loss.number) (\(loss.image.blocks))"
            do { return try examine(loss).map { "\(name): \($0)" } } catch {
                return ["\(name): \(error)"]
            }
        }
    }

    private struct Loss {
        let number: Int
        let image: PowerLossImage
        let promised: [Promises]
        let members: [String: PackageLoad.Member]
        let rows: DatabaseLoad.Promises
        let attempted: [Promises]
        /// The name of the program that moves files.
        let renamer: String

        /// Whether a program has saved these contents as this document, or under the name of its
        /// draft or backup.
        func wasSaved(_ content: WholeContent, as name: String) -> Bool {
            if content.writer == renamer { return name.hasPrefix("moved ") }
            guard let writer = attempted.first(where: { $0.name == content.writer }) else {
                return false
            }
            return writer.documents.contains { document, known in
                known.saves.contains(content.sequence)
                    && SavePattern.places(of: document).contains(name)
            }
        }
    }

    /// What a writer was promised, by document.
    private struct Promises {
        let name: String
        let documents: [String: KillWriter.Document]

        init(of writer: KillWriter) { (name, documents) = (writer.name, writer.documents) }
    }

    private func examine(_ loss: Loss) throws -> [String] {
        try loss.image.mount()
        defer { loss.image.unmount() }
        let store = "\(loss.image.path)/store"
        // The machine has not really been restarted.
        try Command(
            "sqlite3", "\(store)/journal.sqlite",
            "UPDATE meta SET value = 'an earlier one' WHERE key = 'boot'"
        ).succeed()
        return try MountedVolume.with(store: store, options: options) { volume in
            // A database is recorded only after a program has applied its log. A loss of power may
            // have brought back logs of earlier loads.
            var faults: [String] = []
            for name in try FileManager.default.contentsOfDirectory(atPath: volume.path)
            where name.hasPrefix("databases ") {
                let isOwn = name == "databases \(loss.number)"
                faults += try DatabaseLoad.faults(
                    in: "\(volume.path)/\(name)", promised: isOwn ? loss.rows : [:])
            }
            try volume.waitForDisk()
            let doctor = try Programs.fsctl("doctor", volume.path).run()
            if doctor.status != 0 { faults.append("doctor: \(doctor.output)\(doctor.errors)") }
            faults += try PackageLoad.faults(
                at: "\(volume.path)/packages \(loss.number)/p.pages", promised: loss.members)
            let place = "\(volume.path)/load \(loss.number)"
            guard access(place, F_OK) == 0 else {
                let owed = loss.promised.flatMap { $0.documents.values }.flatMap(\.durable).count
                return owed == 0 ? faults : faults + ["the directory with \(owed) saves is gone"]
            }
            var found: [String: Set<Int>] = [:]
            for (document, bytes) in try reachableVersions(in: place) {
                // A program had truncated or created its document, and had not written yet.
                if bytes.isEmpty { continue }
                if let content = WholeContent(bytes) {
                    found[content.writer, default: []].insert(content.sequence)
                    if !loss.wasSaved(content, as: document) {
                        faults.append(
                            "\(document) has a version that was never its own: \(content)")
                    }
                } else {
                    let damage = WholeContent.damage(of: bytes)
                    faults.append("\(document) has a version that nobody wrote: \(damage)")
                }
            }
            for told in loss.promised {
                let there = found[told.name] ?? []
                for (name, document) in told.documents {
                    let lost = Set(document.durable).subtracting(there)
                    if !lost.isEmpty {
                        faults.append(
                            "\(name): saves \(lost.sorted()) were on the disk; "
                                + "\(document.log.suffix(12))")
                    }
                }
            }
            return faults
        }
    }
}
