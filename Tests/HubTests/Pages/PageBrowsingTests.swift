import Foundation
import Hub
import HubPages
import HubProtocol
import Model
import Reconcile
import Support
import Testing

/// What the pages show of volumes, folders and documents.
struct PageBrowsingTests {
    /// Names that a file system allows and that a page could take for something else.
    static let hostileNames = [
        "<script>alert(1)<script>", "\" onmouseover=alert(1) x=\"",
        "'><img src=x onerror=alert(1)>",
        // A combining mark makes one character of itself and the character before it.
        "\"\u{308} onfocus=alert(1) autofocus \u{308}", "<\u{301}b>", "&lt;&amp;&#39;",
        "{{token}}", "{{{frame}}}", "a\nb\tc\u{1B}[31m", "\u{202E}gpj.exe", "zero\u{200B}width",
        "%2e%2e%2f", "..\\..\\etc", "#fragment?query=1&x", "javascript:alert(1)", " ", "\u{FEFF}",
        "-->", "]]>", "\u{1F469}\u{200D}\u{1F469}", String(repeating: "W", count: 56),
    ]

    @Test func hostileNamesAreText() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            for name in Self.hostileNames {
                let result = try await device.save(name, bytes("x of \(name)"))
                #expect(result.verdict == .applied, "\(name)")
            }
            var browser = try await hub.surfer()
            let volume = "/web/v/\(device.volume.id)"
            let folder = try await browser.get(volume)
            #expect(folder.status == 200)
            check(folder)
            let items = try await device.changes().changes.compactMap {
                if case .item(let item) = $0 { item } else { nil }
            }
            #expect(items.count == Self.hostileNames.count)
            for item in items {
                let address = "\(volume)/\(item.id)"
                #expect(folder.text.contains("href=\"\(address)\""), "\(item.name)")
                let page = try await browser.get(address)
                #expect(page.status == 200)
                check(page)
                #expect(page.prose.contains("x of "))
                let file = try await browser.get(address + "/file")
                #expect(file.bytes == bytes("x of \(item.name)"))
                check(disposition: file["Content-Disposition"], named: item.name)
            }
            let prose = folder.prose
            for name in Self.hostileNames.prefix(3) { #expect(prose.contains(name), "\(name)") }
            #expect(
                prose.contains("\u{FFFD}gpj.exe") && prose.contains("a\u{240A}b\u{2409}c\u{241B}"))
        }
    }

    /// Each element and attribute of a page is one of the templates'.
    func check(_ page: Surfer.Page) {
        let text = page.text
        for tag in text.matches(of: /<([a-zA-Z!\/][^\s>]*)([^>]*)>/) {
            let known = [
                "!doctype", "html", "head", "meta", "title", "link", "script", "body", "a", "svg",
                "use", "form", "input", "span", "button", "header", "main", "nav", "ol", "li",
                "bdi", "div", "h1", "h2", "p", "table", "caption", "thead", "tbody", "tr", "th",
                "td", "time", "section", "img", "pre", "ul", "code", "label", "details", "summary",
                "strong",
            ]
            let name = tag.1.drop { $0 == "/" }.lowercased()
            #expect(known.contains(name), "\(name) in \(tag.0)")
            // Unicode scalars, because a combining mark hides a quotation mark from Swift.
            let quotes = tag.2.unicodeScalars.count { $0 == "\"" }
            #expect(quotes.isMultiple(of: 2), "\(tag.0)")
            var rest = tag.2
            rest.replace(/"[^"]*"/.matchingSemantics(.unicodeScalar), with: "")
            #expect(!rest.contains(" on"), "\(tag.0)")
        }
    }

    private func check(disposition: String, named name: String) {
        #expect(disposition.hasPrefix("attachment; filename=\""))
        #expect(disposition.utf8.allSatisfy { (32..<127).contains($0) }, "\(disposition)")
        #expect(disposition.count { $0 == "\"" } == 2, "\(disposition)")
        let encoded = disposition.components(separatedBy: "filename*=UTF-8''").last ?? ""
        #expect(unescaped(encoded) == Array(name.utf8))
    }

    private func unescaped(_ text: String) -> [UInt8] {
        var (bytes, rest) = ([UInt8](), Array(text.utf8)[...])
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            bytes += bytesOf(hexadecimal: String(decoding: rest.prefix(2), as: UTF8.self)) ?? []
            rest = rest.dropFirst(2)
        }
        return bytes
    }

    @Test func everyPageHasItsHeaders() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.save("a.txt", bytes("text"))
            var browser = try await hub.surfer()
            let volume = "/web/v/\(device.volume.id)"
            let item = try await item(of: device)
            let paths = ["/web", volume, "\(volume)/\(item)", "/web/nothing", "\(volume)/x"]
            for path in paths + ["\(volume)?deleted=1", "\(volume)?at=now", "\(volume)?at=x"] {
                let page = try await browser.get(path)
                let policy = page["Content-Security-Policy"]
                #expect(policy.contains("default-src 'none'") && !policy.contains("unsafe"))
                #expect(policy.contains("frame-ancestors 'none'"))
                #expect(page["X-Content-Type-Options"] == "nosniff")
                #expect(page["Cache-Control"] == "no-store")
                #expect(page["Content-Type"] == "text/html; charset=utf-8")
                #expect(page["Referrer-Policy"] == "same-origin")
                #expect(!page.text.contains(" style=") && !page.text.contains("<style"))
                #expect(!page.text.contains(/<script(?! src=)/))
                let head = try await browser.get(path, method: "HEAD")
                #expect(head.status == page.status && head.bytes.isEmpty)
                #expect(page.bytes.count < 100_000, "\(path)")
            }
            for address in try await browser.get("/web").text.matches(
                of: /"(\/web\/assets\/[^"#]*)/)
            {
                let asset = try await browser.get(String(address.1))
                #expect(asset.status == 200 && asset["Cache-Control"].contains("immutable"))
                #expect(asset.bytes.count < 30_000)
            }
        }
    }

    /// All of such a folder would be read for each page if it were sorted.
    @Test(arguments: [(20_050, 0, 200), (20, 3 << 20, 11)])
    func hugeFoldersAreNotSorted(count: Int, bytes: Int, together: Int) async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let volume = device.volume.id
            let attribute = Register(
                value: [UInt8](repeating: 1, count: bytes),
                moment: Moment(time: 1, device: device.id), sequence: 1)
            let placements = (0..<count).map { device.placement("item \($0)") }
            try await hub.hub.ledger.write { transaction in
                for placement in placements {
                    try transaction.put(
                        ItemState(
                            id: .random(), kind: .directory, placement: placement,
                            placedBy: .unknown, placedAt: attribute.moment, placedSequence: 1,
                            attributes: ["x:user.a": attribute], sequence: 1), replacing: nil,
                        in: volume)
                }
            }
            var browser = try await hub.surfer()
            var (names, next) = (Set<Substring>(), String?.some("/web/v/\(volume)"))
            while let path = next {
                let page = try await browser.get(path)
                #expect(page.prose.contains("not sorted by name"))
                let found = page.text.matches(of: /<bdi>(item \d+)<\/bdi>/).map(\.1)
                #expect(found.count <= together && names.isDisjoint(with: found))
                names.formUnion(found)
                next = page.text.firstMatch(of: /rel="next" href="([^"]*)"/).map { String($0.1) }
            }
            #expect(names.count == count)
        }
    }

    private func item(of device: TestDevice) async throws -> Identifier {
        for case .item(let item) in try await device.changes().changes { return item.id }
        throw SupportError("there is no item")
    }

    @Test func otherAccountsAndBadAddressesShowNothing() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device(of: "bert")
            try await device.save("secret.txt", bytes("of bert"))
            let volume = "/web/v/\(device.volume.id)"
            let item = try await item(of: device)
            var browser = try await hub.surfer("anna")
            for path in [
                volume, "\(volume)/\(item)", "\(volume)/\(item)/file", "\(volume)/\(item)/preview",
                "/web/v", "/web/v/", "/web/v/..", "/web/v/%2e%2e/%2e%2e", "/web/../healthz",
                "/web/assets/../pages.css", "/web/assets/", "/web/v/\(device.volume.id)/",
                "\(volume)/\(item)/nothing", "\(volume)/\(item)/", "/web/\u{0}".encodedPath,
                "/web/v/" + String(repeating: "0", count: 33), "/webx", "/web//",
            ] {
                let page = try await browser.get(path)
                #expect(page.status == 404, "\(path)")
                #expect(!page.text.contains("secret") && !page.text.contains("of bert"))
            }
            var own = try await hub.surfer("bert")
            #expect(try await own.get("\(volume)/\(item)").status == 200)
            for query in ["?page=%ff", "?page=%C3"] {
                #expect(try await own.get(volume + query).status == 400, "\(query)")
            }
            for query in ["?page=-1", "?page=999999999999999999999", "?page=after-zz", "?page=x"] {
                #expect(try await own.get(volume + query).status == 200, "\(query)")
            }
            let stranger = try await browser.get("\(volume)/\(item)/file?revision=\(item)")
            #expect(stranger.status == 404)
        }
    }

    @Test func largeFoldersArePaged() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let folder = Identifier.random()
            var entries = [device.directory("folder", id: folder)]
            for number in 1...450 {
                entries.append(
                    device.entry(
                        .random(),
                        .create(
                            Creation(
                                kind: .directory,
                                placement: device.placement("item \(number)", in: folder)))))
            }
            try await device.commit(entries)
            var browser = try await hub.surfer()
            let address = "/web/v/\(device.volume.id)/\(folder)"
            var (names, next, pages) = ([Int](), String?.some(address), 0)
            while let path = next {
                let page = try await browser.get(path.replacing("&amp;", with: "&"))
                names += page.text.matches(of: /<bdi>item (\d+)<\/bdi>/).map { Int($0.1) ?? 0 }
                next = page.text.firstMatch(of: /rel="next" href="([^"]*)"/).map { String($0.1) }
                pages += 1
                #expect(page.bytes.count < 100_000)
            }
            #expect(names == Array(1...450), "sorted by the numbers in the names")
            #expect(pages == 3)
        }
    }
}

extension String {
    fileprivate var encodedPath: String {
        addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? ""
    }
}
