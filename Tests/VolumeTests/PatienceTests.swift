import CLinux
import Foundation
import Glibc
import Support
import SystemCalls
import Testing

@testable import Volume

/// What threads that serve requests may not do: copy what is large, and sync.
@Suite("Patience") struct PatienceTests {
    private let program = Program(process: 1, name: "editor")

    /// A file of 3 MiB that a program has open for writing in place.
    private func onLargeFile(
        _ body: (ProgramTree, ProgramTree.Handle, stat) throws -> Void
    ) throws {
        let tree = try ProgramTree()
        try tree.save("large", [UInt8](repeating: 7, count: 3 << 20), by: program)
        #expect(tree.quiet())
        let handle = try tree.open("large", O_RDWR, by: program)
        defer { tree.close(handle) }
        var status = stat()
        _ = cl_fstat(handle.path, &status)
        try body(tree, handle, status)
    }

    @Test func emptyingALargeFileThatIsOpenNeedsACopy() throws {
        try onLargeFile { tree, handle, status in
            #expect(handle.node.writing.preImages != nil)
            let (traits, actor) = (handle.node.traits, program.actor)
            func needed(_ size: Int64, _ patience: Patience) throws -> Patience? {
                try tree.volume.writing.willTruncate(
                    &handle.node.writing, file: handle.path, status: status, to: size,
                    traits: traits, isWriter: true, unique: 1 << 40, patience: patience, by: actor)
            }
            let expected: [(Int64, Patience, Patience?)] = [
                (0, .none, .copy), (0, .brief, .copy), ((3 << 20) - 5, .none, .brief),
                // Then all is saved.
                (0, .copy, nil), (0, .none, nil),
            ]
            for (size, patience, needs) in expected {
                let answer = try needed(size, patience)
                #expect(answer == needs, "\(size) with \(patience)")
            }
        }
    }

    @Test func aSecondWriterThatEmptiesALargeFileNeedsACopy() throws {
        try onLargeFile { tree, handle, status in
            let access = try tree.volume.writing.open(
                &handle.node.writing, file: handle.path, status: status, truncates: true,
                isNew: false, traits: handle.node.traits, others: 1, unique: 1 << 40,
                patience: .none, by: program.actor)
            guard case .slow(.copy) = access else {
                Issue.record("\(access)")
                return
            }
        }
    }
}
