import Foundation
import Glibc

/// What a program does while the daemon is killed.
package enum KilledWork: Hashable, CaseIterable, Sendable {
    case save(SavePattern)
    case overwriteLarge, shrink, rename, renameOver, remove, restore

    package static let allCases =
        SavePattern.allCases.map(KilledWork.save)
        + [.overwriteLarge, .shrink, .rename, .renameOver, .remove, .restore]

    private var size: Int { self == .overwriteLarge ? 3_000_000 : 20_000 }

    /// No two rounds have the same contents: what one has lost would be found in the packs of
    /// another.
    private func content(_ number: Int, _ round: Int) -> Data {
        var random = SeededRandom(seed: UInt64(round * 8 + number))
        let words = (0..<(size / 8)).map { _ in random.next() }
        return words.withUnsafeBytes { Data($0) }
    }

    /// Contents that are recorded before: two versions of `a`, and one of `b`.
    fileprivate func prepare(_ directory: String, _ round: Int, _ wait: () throws -> Void) throws {
        for (name, number) in [("a", 1), ("b", 3), ("a", 2)] {
            try content(number, round).write(to: URL(filePath: "\(directory)/\(name)"))
            try wait()
        }
    }

    /// The contents that exist once all of it was done.
    fileprivate func result(_ round: Int) -> Data? {
        switch self {
        case .rename, .renameOver, .remove: return nil
        case .restore: return content(1, round)
        case .shrink: return content(2, round).prefix(100)
        case .overwriteLarge:
            var bytes = content(2, round)
            bytes.replaceSubrange(Self.range, with: content(4, round)[Self.range])
            return bytes
        case .save: return content(4, round)
        }
    }

    private static let range = 100_000..<900_000

    fileprivate func run(in directory: String, _ round: Int) throws {
        let (a, b) = ("\(directory)/a", "\(directory)/b")
        switch self {
        case .save(let pattern): try pattern.save(result(round)!, to: a, synced: false)
        case .overwriteLarge:
            let file = try OpenFile(a, O_RDWR)
            try file.write(
                [UInt8](result(round)![Self.range]), at: Self.range.lowerBound)
            file.close()
        case .shrink: try call(truncate(a, 100))
        case .rename: try call(Glibc.rename(a, "\(directory)/c"))
        case .renameOver: try call(Glibc.rename(b, a))
        case .remove: try call(unlink(a))
        case .restore: try Programs.fsctl("restore", a, "1").succeed()
        }
    }
}

/// Kills the daemon at chosen steps of a program's work, mounts again, and checks that nothing is
/// lost, nothing is invented, and no file was changed by mounting.
package final class StepKills {
    private let volume: MountedVolume
    private let killer: StepKiller
    private let work: KilledWork
    private var rounds = 0

    package init(_ volume: MountedVolume, _ killer: StepKiller, _ work: KilledWork) {
        (self.volume, self.killer, self.work) = (volume, killer, work)
    }

    /// Returns the number of steps. `count`: how many of them are tried; nil tries each.
    package func run(count: Int?, random: inout SeededRandom) throws -> Int {
        let steps = try round(killingAt: .max)
        guard steps > 0 else { throw SupportError("no call of the daemon was counted") }
        for index in 0..<(count ?? steps) {
            let step = count == nil ? index + 1 : 1 + random.below(steps)
            do { _ = try round(killingAt: step) } catch {
                throw SupportError("\(work), step \(step) (\(killer.call)): \(error)")
            }
        }
        return steps
    }

    /// Returns the number of steps that were made.
    private func round(killingAt step: Int) throws -> Int {
        rounds += 1
        let directory = "\(volume.path)/\(rounds)"
        try call(mkdir(directory, 0o755))
        try work.prepare(directory, rounds, volume.waitForDisk)
        let before = try reachable(directory)
        killer.arm(at: step == .max ? Int(Int32.max) : step)
        var failure: (any Error)?
        do { try work.run(in: directory, rounds) } catch { failure = error }
        if failure == nil, (try? volume.waitForDisk()) != nil, !volume.isDead {
            killer.disarm()
            try verify(directory, before, isDone: true, try files("\(volume.tree)/\(rounds)"))
            return killer.steps
        }
        killer.disarm()
        try volume.waitForDeath()
        let left = try files("\(volume.tree)/\(rounds)")
        umount2(volume.path, Int32(MNT_DETACH))
        try volume.mount()
        try volume.waitForDisk()
        try Programs.fsctl("doctor", "--no-repair", volume.path).succeed()
        try verify(directory, before, isDone: failure == nil, left)
        return step
    }

    private func verify(
        _ directory: String, _ before: Set<Data>, isDone: Bool, _ left: [String: Data]
    ) throws {
        let files = try files(directory)
        guard files == left else {
            throw SupportError("mounting has made \(summary(files)) of \(summary(left))")
        }
        let after = try reachable(directory)
        let result = work.result(rounds)
        var owed = before
        if isDone, let result { owed.insert(result) }
        let known = owed.union(left.values).union([Data(), result ?? Data()])
        let (lost, invented) = (owed.subtracting(after), after.subtracting(known))
        guard lost.isEmpty, invented.isEmpty else {
            throw SupportError(
                "lost \(lost.map(describe)), invented \(invented.map(describe)); "
                    + "the files are \(summary(files))")
        }
    }

    private func reachable(_ directory: String) throws -> Set<Data> {
        Set(try reachableContents(in: directory))
    }

    private func files(_ directory: String) throws -> [String: Data] {
        var files: [String: Data] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: directory)
        where !name.hasSuffix(".concord-restore.part") {
            files[name] = try Data(contentsOf: URL(filePath: "\(directory)/\(name)"))
        }
        return files
    }

    private func summary(_ files: [String: Data]) -> String {
        files.sorted { $0.key < $1.key }.map { "\($0.key): \(describe($0.value))" }
            .joined(separator: ", ")
    }

    private func describe(_ bytes: Data) -> String {
        "\(bytes.count) bytes, \(bytes.prefix(4).map { $0 })"
    }
}
