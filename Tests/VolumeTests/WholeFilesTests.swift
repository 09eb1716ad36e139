import Model
import Testing

@testable import Volume

/// Which files need not be asked again whether they are placeholders.
@Suite struct WholeFilesTests {
    private let second = Timestamp.span(seconds: 1)

    private func found(changed: Int64, now: Int64) -> WholeFiles {
        var files = WholeFiles()
        files.insert(7, changed: changed, now: now, removals: files.removals)
        return files
    }

    @Test func aFileWithTheSameChangeTimeIsStillWhole() {
        let files = found(changed: 10 * second, now: 20 * second)
        #expect(files.contains(7, changed: 10 * second))
        #expect(!files.contains(7, changed: 10 * second + 1))
        #expect(!files.contains(8, changed: 10 * second))
    }

    @Test(arguments: [-5, 0, 1]) func aRecentChangeTimeSaysNothing(age: Int64) {
        let files = found(changed: 10 * second, now: (10 + age) * second)
        #expect(!files.contains(7, changed: 10 * second))
    }

    @Test func timesAtTheEndsOfTheRangeSayNothing() {
        for changed in [Int64.min, 0, .max] {
            #expect(!found(changed: changed, now: 20 * second).contains(7, changed: changed))
        }
    }

    @Test func aFileThatBecomesAPlaceholderIsForgotten() {
        var files = found(changed: 10 * second, now: 20 * second)
        let before = files.removals
        files.remove(7)
        #expect(!files.contains(7, changed: 10 * second))
        // It was looked at before that.
        files.insert(7, changed: 10 * second, now: 20 * second, removals: before)
        #expect(!files.contains(7, changed: 10 * second))
    }

    @Test func memoryIsBounded() {
        var files = WholeFiles()
        for inode in UInt64(1)...100_000 {
            files.insert(inode, changed: second, now: 20 * second, removals: 0)
        }
        let count = (UInt64(1)...100_000).count { files.contains($0, changed: second) }
        #expect(count > 0 && count <= 1 << 14)
        #expect(files.contains(100_000, changed: second))
    }
}
