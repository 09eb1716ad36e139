import HubProtocol
import Model
import Support
import Testing

@testable import HubPages

/// Forms with files, as browsers send them and as nobody should.
struct MultipartParserTests {
    private static let type = "multipart/form-data; boundary=X"

    /// A part with its bytes together.
    private struct Read: Equatable {
        let name: String
        let file: String?
        var bytes: [UInt8] = []
    }

    private static func read(
        _ body: [UInt8], _ type: String = type, pieces: Int = .max
    ) throws -> (parts: [Read], isComplete: Bool, held: Int) {
        var parser = try MultipartParser(type: type)
        var (parts, isComplete, held) = ([Read](), false, 0)
        for start in stride(from: 0, to: body.count, by: min(pieces, max(body.count, 1))) {
            parser.append(body[start...].prefix(pieces))
            while let event = try parser.next() {
                switch event {
                case .part(let part): parts.append(Read(name: part.name, file: part.file))
                case .bytes(let bytes): parts[parts.count - 1].bytes += bytes
                case .partEnd: break
                case .end: isComplete = true
                }
            }
            held = max(held, parser.heldBytes)
        }
        return (parts, isComplete, held)
    }

    private static func part(_ header: String, _ contents: String = "") -> String {
        "--X\r\n\(header)\r\n\r\n\(contents)\r\n"
    }

    private static func field(_ name: String, _ contents: String = "") -> String {
        part("Content-Disposition: form-data; \(name)", contents)
    }

    @Test(arguments: [1, 2, 3, 7, 1000])
    func partsAreReadHoweverTheyArrive(pieces: Int) throws {
        let contents = ["", "one", "\r\n", "\r\n--", "\r\n--Y\r\n", "--X", "\r\r\n-\r\n--"]
        var body = ""
        for text in contents { body += Self.field("name=\"a\"", text) }
        body += Self.field("name=\"f\"; filename=\"a \u{E9};\\.txt\"", "bytes") + "--X--\r\n"
        let read = try Self.read(bytes(body), pieces: pieces)
        #expect(read.isComplete)
        #expect(read.parts.dropLast().map(\.bytes) == contents.map { bytes($0) })
        #expect(
            read.parts.last == Read(name: "f", file: "a \u{E9};\\.txt", bytes: bytes("bytes")))
        #expect(try Self.read(Array(bytes(body).dropLast(2))).isComplete)
        #expect(try !Self.read(Array(bytes(body).dropLast(3))).isComplete)
    }

    @Test func namesAreUnescapedAsBrowsersEscapeThem() throws {
        for (sent, name) in [
            ("a%22b", "a\"b"), ("%0D%0A", "\r\n"), ("%0a", "\n"), ("100%", "100%"),
            ("%41%2", "%41%2"), ("%2522", "%2522"), ("", ""), ("a\\b", "a\\b"),
        ] {
            let body = Self.field("name=\"f\"; filename=\"\(sent)\"") + "--X--"
            #expect(try Self.read(bytes(body)).parts.first?.file == name, "\(sent)")
        }
    }

    @Test func whatNoBrowserSendsIsRefused() throws {
        let end = "--X--\r\n"
        let bodies = [
            "preamble\r\n--X--", "--Y\r\n\r\n\r\n", "--X", "--X \r\n", "--Xx\r\n", "\r\n--X--",
            end + "x", end + "\r\n", "--X--\n",
            Self.part("", "x"), Self.part("Content-Type: text/plain"), Self.part("x"),
            Self.part("Content-Disposition: attachment; name=\"a\""), Self.field("name=a"),
            Self.field("filename=\"a\""), Self.field("name=\"a"), Self.field("name=\"a\"x"),
            Self.field("name=\"a\"; name=\"b\""), Self.field("name"), Self.field(";"),
            Self.field("name=\"a\"\r\nContent-Disposition: form-data; name=\"b\""),
            Self.field("name=\"a\"\r\nContent-Transfer-Encoding: base64"),
        ]
        for body in bodies {
            let read = try? Self.read(bytes(body + (body.hasPrefix(end) ? "" : end)))
            #expect(read == nil, "\(body)")
        }
        let notText = bytes("--X\r\nContent-Disposition: form-data; name=\"a") + [0xFF]
        #expect(throws: Failure.self) { _ = try Self.read(notText + bytes("\"\r\n\r\n\r\n--X--")) }
        for type in [
            "", "text/plain", "multipart/form-data", "multipart/form-data; charset=x",
            "multipart/form-data; boundary=", "multipart/form-data; boundary=\"\"",
            "multipart/form-data; boundary=a b", "multipart/mixed; boundary=X",
            "multipart/form-data; boundary=" + String(repeating: "x", count: 71),
        ] {
            #expect(throws: Failure.self, "\(type)") { _ = try MultipartParser(type: type) }
        }
        #expect(try Self.read(bytes("--X--"), "Multipart/Form-Data;boundary=\"X\"").isComplete)
    }

    @Test func littleIsHeldOfWhatIsTooLong() throws {
        let header = "--X\r\nContent-Disposition: form-data; name=\""
        let long = bytes(header) + [UInt8](repeating: 0x61, count: 4 << 20)
        #expect(throws: Failure.self) { _ = try Self.read(long, pieces: 1000) }
        let contents = Array(bytes(Self.field("name=\"a\"")).dropLast(2))
        for byte in ["x", "\r", "\r\n", "\r\n--"] {
            let many = Array(
                repeatElement(bytes(byte), count: (1 << 20) / byte.utf8.count).joined())
            let read = try Self.read(contents + many + bytes("\r\n--X--"), pieces: 1000)
            #expect(read.isComplete && read.parts.first?.bytes == many)
            #expect(read.held <= 1000 + MultipartParser.headerBytes)
        }
        let parts = String(repeating: Self.field("name=\"a\""), count: PageLimits.fields + 1)
        #expect(throws: Failure.self) { _ = try Self.read(bytes(parts)) }
    }

    /// Bodies that are almost right: the parser refuses them or reads them, and ends.
    @Test func noBodyIsAFault() throws {
        var random = SeededRandom(named: "multipart")
        let pieces = [
            "--X", "--X--", "\r\n", "\r", "\n", "Content-Disposition: form-data; name=\"a\"",
            "; filename=\"b\"", ":", ";", "\"", "x", "\u{0}", "Content-Type: x",
        ]
        var complete = 0
        for round in 0..<4000 {
            var body = round % 2 == 0 ? "--X\r\n" : ""
            for _ in 0..<Int.random(in: 0..<14, using: &random) {
                body += pieces.randomElement(using: &random)!
            }
            if round % 3 == 0 { body = Self.field("name=\"a\"", body) + "--X--" }
            let whole = try? Self.read(bytes(body))
            let small = try? Self.read(bytes(body), pieces: 1)
            #expect(whole?.isComplete == small?.isComplete, "\(body)")
            if whole?.isComplete == true {
                complete += 1
                #expect(whole?.parts == small?.parts, "\(body)")
            }
        }
        #expect(complete > 100)
    }
}
