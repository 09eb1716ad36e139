import Model
import Testing

@testable import Volume

/// The bytes of a package's versions are in the tree as long as the package has them. When a part
/// of it leaves, they are kept.
@Suite("a part of a package leaves it")
struct PackagePartTests {
    let program = Program(process: 10, name: "mv")

    enum Part: String, CaseIterable {
        case file = "a"
        case directory = "d"
    }

    enum Target: String, CaseIterable {
        case folder = "folder/x"
        case package = "Other.rtfd/x"
        case localName = "x.tmp"
        case localFolder = "local/x"
    }

    enum Then: CaseIterable { case stays, removed, overwritten, quietAndRemoved }

    @Test("its bytes are kept", arguments: Part.allCases, Target.allCases)
    func leaves(_ part: Part, _ target: Target) throws {
        for next in Then.allCases {
            let tree = try ProgramTree()
            try tree.save(".concordignore", "local/\n", by: program)
            for directory in ["folder", "local", "Doc.rtfd", "Doc.rtfd/d", "Other.rtfd"] {
                try tree.mkdir(directory, by: program)
            }
            for file in ["Doc.rtfd/a", "Doc.rtfd/b", "Doc.rtfd/d/c", "Other.rtfd/o"] {
                try tree.save(file, file, by: program)
            }
            #expect(tree.quiet())
            try tree.rename("Doc.rtfd/\(part.rawValue)", target.rawValue, by: program)
            if next == .quietAndRemoved { #expect(tree.quiet()) }
            let file = part == .file ? target.rawValue : target.rawValue + "/c"
            switch next {
            case .stays: break
            case .removed, .quietAndRemoved:
                try tree.unlink(file, by: program)
                if part == .directory { try tree.rmdir(target.rawValue, by: program) }
            case .overwritten: try tree.save(file, "other", by: program)
            }
            #expect(tree.quiet())
            let versions = try #require(try tree.volume.history.document(at: names("Doc.rtfd")))
                .versions
            let whole = ["a": "Doc.rtfd/a", "b": "Doc.rtfd/b", "d/c": "Doc.rtfd/d/c"]
            var left = whole
            left[part == .file ? "a" : "d/c"] = nil
            #expect(try versions.map { try tree.packageFiles($0) } == [whole, left], "\(next)")
            try tree.checkInvariants()
        }
    }
}
