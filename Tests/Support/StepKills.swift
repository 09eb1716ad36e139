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

    /// Contents that are recorded before: two versions of `a`, and one of `b`.
    fileprivate func prepare(_ directory: String, _ wait: () throws -> Void) throws {
        for (name, byte) in [("a", 1), ("b", 3), ("a", 2)] {
            try Data(repeating: UInt8(byte), count: size).write(
                to: URL(filePath: "\(directory)/\(name)"))
            try wait()
        }
    }

    /// The contents that exist once all of it was done.
    fileprivate var result: Data? {
        switch self {
        case .rename, .renameOver, .remove: return nil
        case .restore: return Data(repeating: 1, count: size)
        case .shrink: return Data(repeating: 2, count: 100)
        case .overwriteLarge:
            var bytes = Data(repeating: 2, count: size)
            bytes.replaceSubrange(Self.range, with: Data(repeating: 4, count: Self.range.count))
            return bytes
        case .save: return Data(repeating: 4, count: size)
        }
    }

    private static let range = 100_000..<900_000

    fileprivate func run(in directory: String) throws {
        let (a, b) = ("\(directory)/a", "\(directory)/b")
        switch self {
        case .save(let pattern): try pattern.save(result!, to: a, synced: false)
        case .overwriteLarge:
            let file = try OpenFile(a, O_RDWR)
            try file.write([UInt8](result![Self.range]), at: Self.range.lowerBound)
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
        try work.prepare(directory, volume.waitForDisk)
        let before = try reachable(directory)
        killer.arm(at: step == .max ? Int(Int32.max) : step)
        var failure: (any Error)?
        do { try work.run(in: directory) } catch { failure = error }
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
        var owed = before
        if isDone, let result = work.result { owed.insert(result) }
        let known = owed.union(left.values).union([Data(), work.result ?? Data()])
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
        "\(bytes.count) bytes of \(Set(bytes).sorted())"
    }
}
