import CLinux
import Foundation
import Glibc
import Synchronization

/// Kills the daemon under load, mounts again, and checks whether anything that was promised is
/// lost.
package final class KillLoop {
    private let volume: MountedVolume
    private var random: SeededRandom
    /// The contents of documents of earlier rounds, to check that later rounds do not change them.
    private var settled: [String: WholeContent] = [:]
    private var rounds = 0

    package init(volume: MountedVolume, random: SeededRandom) {
        self.volume = volume
        self.random = random
    }

    package func run(rounds count: Int) throws {
        for _ in 0..<count {
            rounds += 1
            do { try round() } catch {
                throw SupportError("round \(rounds), CONCORD_SEED=\(random.seed): \(error)")
            }
        }
    }

    private func round() throws {
        let package = try PackageLoad(
            path: "\(volume.path)/packages \(rounds)/p.pages", random: random.fork())
        let load = try KillLoad.started(
            in: "\(volume.path)/round \(rounds)", random: &random, microseconds: 700_000)
        load.dying.store(true, ordering: .releasing)
        let members = package.members
        try volume.kill9()
        try load.stop()
        try package.stop(mayBeRefused: true)
        try revive()
        try verify(load)
        let faults = try PackageLoad.faults(
            at: "\(volume.path)/packages \(rounds)/p.pages", promised: members)
        guard faults.isEmpty else { throw SupportError(faults.joined(separator: "; ")) }
        try verifySettled()
    }

    /// Mounts again, either over the dead mount or after it was detached. Sometimes the daemon is
    /// killed again while it recovers.
    private func revive() throws {
        if random.oneIn(2) { umount2(volume.path, Int32(MNT_DETACH)) }
        try volume.mount()
        if random.oneIn(5) {
            usleep(UInt32(random.below(50_000)))
            try volume.kill9()
            try volume.mount()
        }
        let doctor = try Programs.fsctl("doctor", volume.path).run()
        guard doctor.status == 0 else {
            throw SupportError("fsctl doctor found: \(doctor.output)\(doctor.errors)")
        }
    }

    private func verify(_ load: KillLoad) throws {
        for writer in load.writers {
            for (name, document) in writer.documents.sorted(by: { $0.key < $1.key }) {
                try verify(document, at: writer.path(name), by: writer.name)
            }
        }
        try verify(load.renamer)
    }

    private func verify(
        _ document: KillWriter.Document, at path: String, by writer: String
    ) throws {
        let inFlight = document.attempted > document.acknowledged
        var found: [Int] = []
        for place in SavePattern.places(of: path) {
            guard let bytes = try contents(place) else { continue }
            // A program was between creating or truncating its file and writing.
            if bytes.isEmpty && inFlight { continue }
            guard let content = WholeContent(bytes), content.writer == writer else {
                throw SupportError("\(place) is not whole: \(bytes.count) bytes")
            }
            if place == path { settled[place] = content }
            found.append(content.sequence)
        }
        if let beyond = found.first(where: { $0 > document.attempted }) {
            throw SupportError("\(path) holds save \(beyond), which nobody made")
        }
        if !inFlight, found.max() != document.acknowledged {
            throw SupportError(
                "\(path) holds \(found), and \(document.acknowledged) was acknowledged")
        }
        var owed = Set(document.durable)
        if document.acknowledged >= 0 && (found.max() ?? -1) < document.acknowledged {
            owed.insert(document.acknowledged)
        }
        owed.subtract(found)
        if owed.isEmpty { return }
        owed.subtract(try versions(of: path))
        // A program that was killed during its save may leave the contents under the name of its
        // draft or backup.
        if !owed.isEmpty { owed.subtract(try reachable(writer, beside: path)) }
        if !owed.isEmpty {
            throw SupportError("\(path): saves \(owed.sorted()) are neither there nor versions")
        }
    }

    private func verify(_ renamer: KillRenamer) throws {
        var found: [String: Int] = [:]
        for number in 0..<4 {
            let name = "moved \(number)"
            guard let bytes = try contents(renamer.path(name)) else { continue }
            guard let content = WholeContent(bytes), content.writer == renamer.name else {
                throw SupportError("\(renamer.path(name)) is not whole: \(bytes.count) bytes")
            }
            found[name] = content.sequence
            settled[renamer.path(name)] = content
        }
        if found != renamer.names && found != renamer.underWay {
            throw SupportError(
                "after moves there is \(found), not \(renamer.names)"
                    + (renamer.underWay.map { " nor \($0)" } ?? ""))
        }
    }

    /// Checks some documents of earlier rounds: checking all of them would take longer each round.
    private func verifySettled() throws {
        let paths = settled.keys.sorted()
        for _ in 0..<min(paths.count, 20) {
            let path = random.pick(paths)
            guard let bytes = try contents(path), WholeContent(bytes) == settled[path] else {
                throw SupportError("\(path) changed after its round")
            }
        }
    }

    /// Nil when there is no such file; any other failure is an error.
    private func contents(_ path: String) throws -> Data? {
        guard access(path, F_OK) == 0 || errno != ENOENT else { return nil }
        return try Data(contentsOf: URL(filePath: path))
    }

    private func reachable(_ writer: String, beside path: String) throws -> Set<Int> {
        let directory = URL(filePath: path).deletingLastPathComponent().path
        let contents = try reachableContents(in: directory).compactMap(WholeContent.init)
        return Set(contents.filter { $0.writer == writer }.map(\.sequence))
    }

    /// The saves that are versions of a document, read from its hidden directory.
    private func versions(of path: String) throws -> Set<Int> {
        let document = URL(filePath: path)
        let directory = document.deletingLastPathComponent()
            .appending(path: ".versions/\(document.lastPathComponent)")
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        return Set(
            try names.compactMap { name in
                WholeContent(try Data(contentsOf: directory.appending(path: name)))?.sequence
            })
    }
}

/// Calls renameat2(2) with paths. Returns 0, or -1 and sets errno.
func renameat2(_ from: String, _ to: String, _ flags: UInt32) -> Int32 {
    let result = cl_renameat2(AT_FDCWD, from, AT_FDCWD, to, flags)
    if result < 0 { errno = -result }
    return result < 0 ? -1 : 0
}
