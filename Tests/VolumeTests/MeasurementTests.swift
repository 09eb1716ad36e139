import CLinux
import Foundation
import Glibc
import Journal
import Model
import SystemCalls
import Testing

@testable import Volume

/// Measurements without assertions, to be run by hand in a release build; `VOLUME_MEASURE=1000000`
/// sets the number of files.
@Suite(.serialized) struct MeasurementTests {
    static let count = ProcessInfo.processInfo.environment["VOLUME_MEASURE"].flatMap(Int.init) ?? 0

    static let directory = ProcessInfo.processInfo.environment["VOLUME_MEASURE_IN"] ?? "/tmp"

    private func seconds() -> Double { Double(cl_clock_monotonic_ns()) / 1e9 }

    private func memory() -> Int {
        let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("VmRSS") } ?? ""
        return (Int(line.filter(\.isNumber)) ?? 0) / 1024
    }

    @Test(.enabled(if: MeasurementTests.count > 0)) func scanOfManyFiles() throws {
        let scratch = Scratch(in: MeasurementTests.directory)
        let store = scratch.path + "/store"
        mkdir(store, 0o755)
        mkdir(store + "/tree", 0o755)
        for directory in 0..<(MeasurementTests.count / 1000) {
            let path = store + "/tree/directory\(directory)"
            mkdir(path, 0o755)
            for file in 0..<1000 {
                let descriptor = Glibc.open(
                    path + "/document number \(file).txt", O_CREAT | O_WRONLY, 0o644)
                Glibc.close(descriptor)
            }
        }
        let before = memory()
        for round in ["first", "second", "third"] {
            let start = seconds()
            let tree = try ProgramTree(store: store, settings: Settings())
            let serving = seconds()
            // If events came before the request, it is answered when the scan is done.
            try tree.save("hello", "\(round)", by: Program(process: 1))
            _ = tree.volume.recorder.catchUp(with: nil, timeoutSeconds: 1000)
            let scanned = seconds()
            let peak = memory()
            tree.quiet(seconds: 1000)
            let done = seconds()
            tree.stop()
            print(
                "\(round): serving \(serving - start) s, scanned \(scanned - start) s, recorded",
                "\(done - start) s, memory \(before) MB before, \(peak), \(memory()) MB, closed in",
                "\(seconds() - done) s, \(tree.volume.journal.transactionCount) transactions")
        }
    }

    @Test(.enabled(if: MeasurementTests.count > 0)) func manySmallFilesSaved() throws {
        let count = min(100_000, MeasurementTests.count)
        let scratch = Scratch(in: MeasurementTests.directory)
        let tree = try ProgramTree(store: scratch.path + "/store", settings: Settings())
        let program = Program(process: 1)
        tree.quiet()
        let start = seconds()
        for directory in 0..<(count / 1000) {
            try tree.mkdir("d\(directory)", by: program)
            for file in 0..<1000 {
                try tree.save("d\(directory)/f\(file)", "text \(file)", by: program)
            }
        }
        let written = seconds()
        tree.quiet(seconds: 1000)
        let done = seconds()
        print(
            "\(count) files saved in \(written - start) s, recorded \(done - written) s later:",
            "\((done - start) / Double(count) * 1e6) µs each,",
            "\(tree.volume.journal.transactionCount) transactions, \(memory()) MB")
        tree.stop()
    }
}
