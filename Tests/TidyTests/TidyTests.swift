import Testing

/// The rules of the repository that a program can check.
@Suite("The repository is tidy")
struct TidyTests {
    static let repository = Result { try Repository() }

    @Test("every file obeys every rule", arguments: Rule.all)
    func kept(_ rule: Rule) throws {
        let sources = try Self.repository.get().sources
        #expect(sources.count > 20, "the walk found the repository")
        let findings = sources.flatMap(rule.findings)
        for finding in findings { Issue.record("\(finding)") }
    }

    @Test("every rule can fail", arguments: Rule.all)
    func canFail(_ rule: Rule) {
        #expect(rule.findings(rule.planted).count == 1)
    }

    @Test("a folder of Sources has at most 20 files")
    func folders() throws {
        #expect(Sizes.overfullFolders(try Self.repository.get().paths).isEmpty)
        let planted = (0...Sizes.filesMax).map { "Sources/Model/File\($0).swift" }
        #expect(Sizes.overfullFolders(planted) == ["Sources/Model": 21])
    }

    @Test("a type has at most 600 lines in all its extensions, and larger ones do not grow")
    func types() throws {
        let lines = Sizes.linesOfTypes(try Self.repository.get().sources)
        for (type, count) in lines where count > Sizes.ceilings[type] ?? Sizes.linesMax {
            Issue.record("\(type) has \(count) lines: make two types of it")
        }
        for (type, ceiling) in Sizes.ceilings {
            let count = lines[type] ?? 0
            #expect(count > Sizes.linesMax, "\(type) is small now: remove its ceiling")
            #expect(count > ceiling - 200, "\(type) has \(count) lines now: lower its ceiling")
        }
        let planted = ["struct One {\n    let a = 1\n}\n", "extension One {}\n"].map {
            SourceText(path: "Sources/Model/One.swift", text: $0)
        }
        #expect(Sizes.linesOfTypes(planted) == ["Model.One": 4])
    }

    @Test(
        "imports are recognized in every spelling",
        arguments: [
            ("import Model", "Model"), ("package import CLinux", "CLinux"),
            ("@testable import Volume", "Volume"), ("import struct Model.Version", "Model"),
            ("@preconcurrency package import Mount", "Mount"),
        ])
    func spelling(line: String, module: String) {
        #expect(Layers.imported(by: line[...]) == module)
    }

    @Test(
        "comments and strings about imports are not imports",
        arguments: ["// an import of Mount", "let text = \"import Mount\"", "/// import Mount"])
    func prose(line: String) {
        #expect(Layers.imported(by: line[...]) == nil)
    }

    @Test(
        "each forbidden import is reported",
        arguments: [
            ("Model", "SystemCalls"), ("Hub", "Volume"), ("Volume", "Sync"),
            ("FileCoordination", "Mount"), ("Model", "CLinux"), ("ChunkStore", "Volume"),
            ("Control", "Volume"), ("Volume", "CFuse"), ("Volume", "Foundation"),
            ("Mount", "ArgumentParser"), ("Strange", "Model"), ("Reconcile", "SystemCalls"),
        ])
    func refused(module: String, imported: String) {
        #expect(Layers.objection(to: imported, in: module) != nil)
    }

    @Test("the imports of the design are allowed")
    func allowed() {
        let arrows = [
            ("Mount", "Volume"), ("Volume", "Journal"), ("ChunkStore", "CZstd"), ("Sync", "Volume"),
            ("FileCoordination", "Control"), ("concord", "Mount"), ("Journal", "GRDB"),
            ("Volume", "FoundationEssentials"), ("SystemCalls", "CLinux"),
        ]
        for (module, imported) in arrows {
            #expect(Layers.objection(to: imported, in: module) == nil)
        }
    }

    @Test("a function is measured with its wrapped signature and nested functions, also in C")
    func measure() {
        let swift = """
            protocol Store {
                func get(_ id: Int) throws -> Int
                func put(_ id: Int)
            }
            struct One {
                init(
                    a: Int
                ) {
                    self.a = a
                }
                func wide(a: Int)
                    throws -> Int
                {
                    func inner() {
                        1
                    }
                }
                var short: Int { 3 }
                func line() { 4 }
            }
            """
        let measured = functions(of: SourceText(path: "a.swift", text: swift)).map(\.count)
        #expect(measured == [5, 7, 3])
        let c = "static int one(void)\n{\n\treturn 1;\n}\nint two(void) {\n}\n"
        #expect(functions(of: SourceText(path: "a.c", text: c)).map(\.count) == [3, 2])
    }
}
