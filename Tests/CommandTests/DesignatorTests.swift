import Control
import Model
import Testing

@testable import fsctl

@Suite struct DesignatorTests {
    private func versions(_ facts: [(Int, Version.Kind, String?)]) -> [VersionReport] {
        facts.map { number, kind, label in
            VersionReport(
                Version(
                    number: number, kind: kind, device: .random(), deviceName: "", person: "",
                    program: "", name: Name("a"), size: 0, modified: 0, saved: 0,
                    content: Digest(.sha256, words: (0, 0, 0, 0)), label: label),
                fileName: Name("a"))
        }
    }

    private var history: [VersionReport] {
        versions([
            (2, .history, nil), (5, .history, "draft"), (6, .conflict, nil), (7, .current, nil),
        ])
    }

    @Test(arguments: [
        ("5", 5), ("7", 7), ("6", 6), ("-1", 5), ("-2", 2), ("@-1", 5), ("draft", 5),
    ])
    func findsTheOneMeant(text: String, number: Int) throws {
        #expect(try VersionSpecifier(text).find(in: history, of: "a").number == number)
    }

    @Test(arguments: [
        ("3", "a has no version 3; it has 4 versions, 2 to 7"),
        ("-3", "a has no version 3 before the current one; it has 4 versions, 2 to 7"),
        ("final", "no version of a has the label \"final\"; fsctl versions lists them"),
        ("@-0", "no version of a has the label \"-0\"; fsctl versions lists them"),
        ("0", "no version of a has the label \"0\"; fsctl versions lists them"),
    ])
    func saysWhatThereIsInstead(text: String, sentence: String) {
        #expect(throws: VolumeError(.notFound, sentence)) {
            try VersionSpecifier(text).find(in: history, of: "a")
        }
    }

    @Test("the beginning of an id names a version like a number, and is the same on all devices")
    func identifiers() throws {
        var versions = history
        versions[0].id = "00123456789abcdef0123456789abcde"
        versions[1].id = "123456a0000000000000000000000000"
        versions[2].id = "123456b0000000000000000000000000"
        versions[3].id = "fedcba00000000000000000000000000"
        for (text, number) in [
            ("001234", 2), ("123456a", 5), ("123456B", 6), ("fedcba", 7), (versions[1].id, 5),
        ] {
            #expect(try VersionSpecifier(text).find(in: versions, of: "a").number == number)
        }
        let sentence = "the ids of 2 versions of a begin with 123456; give more of it"
        #expect(throws: VolumeError(.invalid, sentence)) {
            try VersionSpecifier("123456").find(in: versions, of: "a")
        }
        // This is too short for the beginning of an id.
        #expect(throws: VolumeError.self) {
            try VersionSpecifier("fedcb").find(in: versions, of: "a")
        }
        let ids = ShortIdentifiers(versions)
        #expect(versions.map(ids.text) == ["0012345", "123456a", "123456b", "fedcba0"])
    }

    @Test func ofADeletedDocumentTheLastIsOneBack() throws {
        let deleted = versions([(1, .history, nil), (2, .history, nil)])
        #expect(try VersionSpecifier("-1").find(in: deleted, of: "a").number == 2)
    }

    @Test func offsetsPassTheParser() {
        #expect(
            VersionSpecifier.escapingOffsets(["show", "a", "-1", "-x", "--as", "-", "-12", "2"])
                == ["show", "a", "@-1", "-x", "--as", "-", "@-12", "2"])
    }

    @Test(arguments: ["12", "-1", "-x", "", "a\nb", String(repeating: "x", count: 256)])
    func labelsThatLookLikeSomethingElseAreRefused(label: String) {
        #expect(throws: VolumeError.self) { try Label.check(label) }
    }

    @Test(arguments: ["final", "2nd draft", "für Anna", "v1.2"])
    func labelsAreFree(label: String) throws { try Label.check(label) }
}
