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
