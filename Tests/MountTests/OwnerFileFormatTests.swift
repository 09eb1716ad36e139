import Glibc
import Model
import Testing
import Volume

@testable import Mount

/// Names and contents of owner files, with names of people and devices that somebody hostile chose.
@Suite("Formats of owner files") struct OwnerFileFormatTests {
    private struct Person: CustomTestStringConvertible {
        var user: String
        var device: String
        var testDescription: String { "\(user)@\(device)" }
    }

    private static let people = [
        Person(user: "ann", device: "desk"), Person(user: "", device: ""),
        Person(user: "a,b;c\\", device: ";;,,\\\\"), Person(user: "a@b@c.7", device: "d@e.1:2@f.3"),
        Person(user: "../../etc", device: "/../passwd"), Person(user: "~root/%s$HOME", device: "."),
        Person(
            user: String(repeating: "é", count: 127),
            device: String(repeating: "👩‍👩‍👧", count: 14)),
        Person(
            user: String(repeating: "x", count: 255), device: String(repeating: ";", count: 255)),
    ]

    private func bytes(_ format: OwnerFileFormat, _ person: Person, of name: String = "plan.txt")
        -> [UInt8]
    {
        let owner = OpenElsewhere(
            document: Identifier(high: 1, low: 2), device: Identifier(high: 3, low: 4),
            deviceName: person.device, user: person.user, use: .edits,
            since: 1_796_000_000_000_000_000)
        return format.bytes(owner, of: Name(name), process: 4711)
    }

    @Test("which names are those of owner files, and of which documents") func names() {
        let expected: [String: [String]] = [
            ".~lock.plan.odt#": ["plan.odt"], ".~lock.#": [], ".~lock.plan.odt": [],
            ".~lock": [], ".#plan": ["plan"], ".#": [], ".#.hidden": [".hidden"],
            ".plan.txt.swp": ["plan.txt", ".plan.txt"], ".swp": [], "..swp": [],
            ".a.swp": ["a", ".a"], ".plan.swo": [], "plan.swp": [], "": [], ".": [], "..": [],
            ".versions": [], ".~": [], "~lock.plan#": [], "#plan#": [],
        ]
        for (name, documents) in expected {
            let parsed = OwnerFileName(Name(name))
            #expect(parsed?.documents.map(\.text) ?? [] == documents, "\(name)")
        }
    }

    @Test("LibreOffice reads five fields", arguments: people) private func libreOffice(
        _ person: Person
    ) throws {
        var fields: [[UInt8]] = [[]]
        var isEscaped = false
        var ends = 0
        for byte in bytes(.libreOffice, person) {
            #expect(ends == 0)
            if isEscaped {
                fields[fields.count - 1].append(byte)
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: ",") {
                fields.append([])
            } else if byte == UInt8(ascii: ";") {
                ends += 1
            } else {
                fields[fields.count - 1].append(byte)
            }
        }
        #expect(ends == 1 && !isEscaped)
        let texts = fields.map { String(decoding: $0, as: UTF8.self) }
        try #require(texts.count == 5)
        #expect(texts[0] == "\(person.user) (\(person.device))")
        #expect(texts[1] == person.user && texts[2] == person.device)
        #expect(texts[3].wholeMatch(of: /\d\d\.1[12]\.2026 \d\d:\d\d/) != nil, "\(texts[3])")
        #expect(texts[4] == "file:///concord/\(Identifier(high: 3, low: 4))")
    }

    @Test("Emacs reads a user, a host and a process", arguments: people) private func emacs(
        _ person: Person
    ) throws {
        let link = bytes(.emacs, person)
        #expect(!link.contains(UInt8(ascii: "/")) && link.count < 1024)
        let at = try #require(link.lastIndex(of: UInt8(ascii: "@")))
        let dot = try #require(link[at...].lastIndex(of: UInt8(ascii: ".")))
        func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
        func plain(_ text: String, _ special: String) -> String {
            String(text.map { special.contains($0) ? "-" : $0 })
        }
        #expect(text(link[..<at]) == plain(person.user, "/"))
        #expect(text(link[(at + 1)..<dot]) == plain(person.device, "/@"))
        #expect(text(link[(dot + 1)...]) == "4711")
    }

    @Test("Vim reads block 0", arguments: people) private func vim(_ person: Person) throws {
        let name = String(repeating: "n", count: 251) + ".txt"
        let block = bytes(.vim, person, of: name)
        #expect(block.count == 4096)
        func field(_ start: Int, _ count: Int) throws -> String {
            let bytes = block[start..<start + count]
            let end = try #require(bytes.firstIndex(of: 0), "It ends with NUL.")
            #expect(bytes[end...].dropLast(2).allSatisfy { $0 == 0 })
            return String(decoding: bytes[..<end], as: UTF8.self)
        }
        func number<Value: FixedWidthInteger>(_ start: Int, _: Value.Type) -> Value {
            block.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: start, as: Value.self) }
        }
        #expect(try field(0, 12) == "b0VIM 9.0")
        let (user, host) = (try field(28, 40), try field(68, 40))
        #expect(person.user.hasPrefix(user) && person.device.hasPrefix(host))
        #expect(user == person.user || user.utf8.count > 10)
        #expect(host == person.device || host.utf8.count > 10)
        #expect(try field(108, 900) == name)
        #expect(block[1006] == 4 && block[1007] == 0x55)
        #expect(number(12, UInt32.self) == 4096 && number(24, UInt32.self) == 4711)
        #expect(number(1008, Int.self) == 0x3031_3233 && number(1016, Int32.self) == 0x2021_2223)
        #expect(number(1020, Int16.self) == 0x1213 && block[1022] == 0x55)
    }
}
