import HubProtocol
import Testing

@testable import HubWebDAV

/// The XML that clients send.
struct ElementParserTests {
    private func parse(_ text: String) throws -> Element {
        try ElementParser.parse(Array(text.utf8))
    }

    @Test func elementsAndNamespacesAreRead() throws {
        let root = try parse(
            """
            \u{FEFF}<?xml version="1.0" encoding="utf-8" ?>
            <!-- a comment -->
            <D:propfind xmlns:D="DAV:"><D:prop><z:author xmlns:z="urn:z" z:a="1" b='2'/>
            <plain xmlns="urn:p"><inner/></plain><none xmlns=""/></D:prop></D:propfind>
            """)
        #expect(root.name == .dav("propfind"))
        let names = try #require(root.child(.dav("prop"))).children
        #expect(names.map(\.name.space) == ["urn:z", "urn:p", ""])
        #expect(names.map(\.name.local) == ["author", "plain", "none"])
        #expect(names[0].attributes.map(\.name) == [ElementName("urn:z", "a"), .init("", "b")])
        #expect(names[1].children.map(\.name) == [ElementName("urn:p", "inner")])
    }

    @Test func textIsDecodedOnce() throws {
        let root = try parse("<a b=\"&amp;lt;&#65;\">&lt;&#x1F600;&amp;amp;<![CDATA[<&amp;>]]></a>")
        #expect(root.attributes[0].value == "&lt;A")
        #expect(root.text == "<\u{1F600}&amp;<&amp;>")
    }

    @Test(arguments: [
        "", "   ", "text", "<a>", "<a></b>", "<a/><b/>", "<a/>text", "<a", "<a b>", "<a b=1/>",
        "<a b=\"1\" b=\"2\"/>", "<a b=\"<\"/>", "<a b=\"1\"c=\"2\"/>", "<x:a/>", "<a x:b=\"1\"/>",
        "<a xmlns:x=\"\"/>", "<a xmlns:xml=\"urn:x\"/>", "<a xmlns:xmlns=\"urn:x\"/>",
        "<a xmlns:x=\"u\" xmlns:y=\"u\" x:b=\"1\" y:b=\"2\"/>", "<a:b:c xmlns:a=\"u\"/>", "<1a/>",
        "<:a/>", "<a>&nbsp;</a>", "<a>&#0;</a>", "<a>&#xD800;</a>", "<a>&#+65;</a>", "<a>&</a>",
        "<a>&#x110000;</a>", "<a>\u{1}</a>", "<a>&#1;</a>", "<a><!-- </a>", "<a><![CDATA[</a>",
        "<!DOCTYPE a><a/>", "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
        "<a><!ENTITY b \"c\"></a>",
        "<a><?php?></a>", "<?other?><a/>", "<?xml version=\"1.0\" encoding=\"utf-16\"?><a/>",
        "<?xml", "</a>",
    ])
    func whatIsNotWellFormedIsRefused(_ text: String) {
        #expect(throws: Failure.self) { _ = try parse(text) }
    }

    @Test func anExternalEntityIsNotRead() {
        let text = """
            <?xml version="1.0"?><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>
            """
        #expect(throws: Failure.self) { _ = try parse(text) }
    }

    @Test func sizesAreLimited() throws {
        func nested(_ depth: Int) -> String {
            String(repeating: "<a>", count: depth) + String(repeating: "</a>", count: depth)
        }
        _ = try parse(nested(32))
        let wide = "<a>" + String(repeating: "<b/>", count: 4096) + "</a>"
        let attributes = "<a " + (0..<65).map { "b\($0)=\"\"" }.joined(separator: " ") + "/>"
        let long = "<a>" + String(repeating: "b", count: 128 << 10) + "</a>"
        let name = String(repeating: "n", count: 257)
        for text in [
            nested(33), nested(20_000), wide, attributes, long, "<\(name)/>", "<a \(name)=\"\"/>",
            "<a xmlns=\"\(name)\"/>", "<x:a xmlns:x=\"\(name)\"/>",
        ] {
            let failure = #expect(throws: Failure.self) { _ = try parse(text) }
            #expect(failure?.code == .tooLarge)
        }
        #expect(throws: Failure.self) { try ElementParser.parse([0x3C, 0x61, 0xFF, 0x3E]) }
    }

    /// A dead property is stored as a text that is put into another document later.
    @Test func aSerializedElementMeansTheSame() throws {
        let texts = [
            "<a/>", "<a xmlns=\"urn:a\"><b xmlns=\"\">&lt;&amp;</b><c/></a>",
            "<x:a xmlns:x=\"u&amp;&quot;\" x:b=\"&quot;&#10;\">t<x:d xml:lang=\"de\"/></x:a>",
        ]
        for text in texts {
            let element = try parse(text)
            let alone = try #require(element.serialized(atMost: 1000))
            #expect(try parse(alone) == element, "\(text)")
            let within = try #require(element.serialized(in: "urn:o", atMost: 1000))
            let placed = try parse("<o xmlns=\"urn:o\">\(within)</o>")
            #expect(placed.children == [element], "\(text)")
        }
    }

    /// A prefix is short, and the namespace for which it stands is repeated without it.
    @Test func aTextThatWouldBeMuchLongerIsNotMade() throws {
        let space = String(repeating: "s", count: 256)
        let many = String(repeating: "<x:b/><c/>", count: 100)
        let element = try parse("<a xmlns:x=\"\(space)\">\(many)</a>")
        #expect(element.serialized(atMost: 20_000) == nil)
        #expect(try #require(element.serialized(atMost: 40_000)).utf8.count > 25_600)
    }

    @Test func aRequestNamesFewBytesOfProperties() throws {
        let space = String(repeating: "s", count: 200)
        func request(_ count: Int) throws -> PropertyRequest {
            let names = String(repeating: "<x:b/>", count: count)
            return try PropertyRequest(
                parse(
                    "<D:propfind xmlns:D=\"DAV:\" xmlns:x=\"\(space)\"><D:prop>\(names)</D:prop>"
                        + "</D:propfind>"))
        }
        _ = try request(80)
        let failure = #expect(throws: Failure.self) { _ = try request(100) }
        #expect(failure?.code == .tooLarge)
    }

    @Test func textThatXMLCannotHaveIsReplaced() throws {
        #expect(Markup.escaped("a\u{1}\u{0}<\u{FFFE}") == "a\u{FFFD}\u{FFFD}&lt;\u{FFFD}")
    }
}
