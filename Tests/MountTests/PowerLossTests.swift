import Foundation
import Glibc
import Support
import Testing

/// The number of rounds: CONCORD_POWER_LOSSES, or a few; `make soak` runs 200.
private let powerLosses =
    ProcessInfo.processInfo.environment["CONCORD_POWER_LOSSES"].flatMap { Int($0) } ?? 8

/// The file systems of these rounds, separated by commas: CONCORD_POWER_DISKS, or all.
private let powerDisks =
    ProcessInfo.processInfo.environment["CONCORD_POWER_DISKS"].map {
        $0.split(separator: ",").compactMap { LoopDisk.Kind(rawValue: String($0)) }
    } ?? LoopDisk.Kind.allCases

/// `fsctl wait --durable disk` and losses of power.
@Suite(.serialized, .enabled(if: geteuid() == 0, "mounting a disk of its own takes root"))
struct PowerLossTests {
    @Test(arguments: DataPath.allCases, [20_000, 4_000_000])
    func aConfirmedVersionOutlivesItsOverwriting(path: DataPath, size: Int) throws {
        for flags in [O_WRONLY | O_TRUNC, O_RDWR] {
            let disk = try LossyDisk()
            try MountedVolume.with(store: "\(disk.path)/store", options: path.options) { volume in
                let file = "\(volume.path)/a"
                let first = Data((0..<size).map { UInt8(truncatingIfNeeded: $0 &* 7) })
                try first.write(to: URL(filePath: file))
                try volume.waitForDisk()
                let descriptor = open(file, flags)
                try #require(descriptor >= 0)
                // Writes every fourth block, and then the others.
                for start in [3, 0, 1, 2] {
                    for index in stride(from: start, to: size / 4_000, by: 4) {
                        let bytes = [UInt8](repeating: 1, count: 4_000)
                        #expect(pwrite(descriptor, bytes, 4_000, off_t(index * 4_000)) == 4_000)
                    }
                    #expect(fsync(descriptor) == 0)
                }
                try disk.cutPower()
                close(descriptor)
                try volume.kill9()
                umount2(volume.path, Int32(MNT_DETACH))
                try disk.restorePower()
                try volume.mount()
                try volume.waitForDisk()
                let found = try reachableContents(in: volume.path)
                #expect(found.contains(first), "\(found.map(\.count))")
            }
        }
    }

    @Test func confirmedContentsSurviveLossesOfPower() throws {
        var losses = PowerLosses(random: SeededRandom(named: "PowerLosses", usual: 701))
        try losses.run(images: powerLosses, on: powerDisks)
    }
}
