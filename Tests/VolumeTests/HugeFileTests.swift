import Foundation
import Glibc
import Model
import Testing

@testable import Volume

/// Documents too large to be recorded.
@Suite struct HugeFileTests {
    private let program = Program(process: 10, name: "truncate")

    @Test("a document that is too large for versions says so, and others are recorded")
    func tooLarge() throws {
        let tree = try ProgramTree()
        try tree.save("huge", "so far small", by: program)
        try tree.save("other", "one", by: program)
        #expect(tree.quiet())
        try tree.truncate("huge", to: 5 << 40, by: program)
        let handle = try tree.open("huge", O_RDWR, by: program)
        try tree.write(handle, Array("written".utf8), at: 3 << 40)
        tree.close(handle)
        try tree.save("other", "two", by: program)
        let recorder = tree.volume.recorder
        #expect(recorder.catchUp(with: .path(names("other")), timeoutSeconds: 20))
        #expect(try tree.texts("other") == ["one", "two"])
        #expect(recorder.catchUp(with: .path(names("huge")), timeoutSeconds: 20))
        #expect(try tree.item("huge")?.latest == 1)
        let problems = recorder.reports.report.problems.values.map(\.words).joined()
        #expect(problems.contains("larger than"), "\(problems)")
        try tree.truncate("huge", to: 12, by: program)
        #expect(tree.quiet())
        #expect(try tree.texts("huge") == ["so far small"])
        try tree.truncate("huge", to: 5 << 40, by: program)
        #expect(recorder.catchUp(with: .path(names("huge")), timeoutSeconds: 20))
        try tree.unlink("huge", by: program)
        try tree.checkInvariants()
        tree.stop()
    }

    /// XFS allows files of 2^63 - 1 bytes.
    @Test("the attributes of a file that is as long as the kernel allows are shown")
    func longestFile() throws {
        let tree = try ProgramTree()
        var status = stat()
        status.st_mode = S_IFREG
        for size in [Int.max, .max - 511, 513, 512] {
            (status.st_size, status.st_blocks) = (size, 1)
            var looks = 0
            tree.volume.hydration.present(&status) {
                looks += 1
                return nil
            }
            // A file with fewer blocks than its size needs may be a placeholder.
            #expect(looks == (size > 512 ? 1 : 0), "\(size)")
        }
        tree.stop()
    }
}
