import Testing

@testable import Model

/// The stored form of a manifest.
@Suite struct ManifestTests {
    private func chunk(_ byte: UInt8, length: UInt32 = 4 << 20) -> ChunkReference {
        ChunkReference(id: Digest(.sha256, words: (UInt64(byte), 0, 0, 0)), length: length)
    }

    @Test("a hole of terabytes is a few bytes")
    func runs() throws {
        let chunks =
            [chunk(1)] + [ChunkReference](repeating: chunk(0), count: 1 << 20)
            + [chunk(2), chunk(2), chunk(3, length: 9)]
        let manifest = Manifest(chunks: chunks, mode: 0o600, modified: 77)
        let bytes = manifest.encoded
        #expect(bytes.count < 300)
        #expect(Manifest(encoded: bytes) == manifest)
        #expect(Manifest(encoded: Array(bytes.dropLast())) == nil)
    }

    @Test("a manifest without repetitions has the form that it always had")
    func plain() throws {
        let manifest = Manifest(chunks: [chunk(1), chunk(2)])
        #expect(manifest.encoded.first == 1)
        #expect(Manifest(encoded: manifest.encoded) == manifest)
        // Contents are compared by a form without runs, so that contents that were recorded before
        // runs existed stay equal.
        #expect(Manifest(chunks: [chunk(1), chunk(1)]).contentForm.first == 1)
    }

    /// Older devices and hubs read bits above 16 and ignore them.
    @Test("what another user keeps private in a package is a bit of the mode that others ignore")
    func partsOfOthers() throws {
        var manifest = Manifest(entries: [
            Manifest.Entry(path: Array("a".utf8), mode: 0o600, isOfAnother: true, modified: 5),
            Manifest.Entry(path: Array("b".utf8), mode: 0o644, modified: 5),
        ])
        let (bytes, form) = (manifest.encoded, manifest.contentForm)
        #expect(bytes.first == 1)
        #expect(Manifest(encoded: bytes) == manifest)
        #expect(manifest.hasPartsOfOthers)
        let outline = try #require(ManifestOutline(encoded: bytes))
        #expect(outline.entries.map(\.entry.isOfAnother) == [true, false])
        manifest.entries[0].isOfAnother = false
        // It is no difference of contents, and one byte more.
        #expect(manifest.contentForm == form && manifest.encoded.count == bytes.count - 1)
    }

    @Test("a manifest cannot ask for more memory than the largest document has")
    func bomb() {
        let bytes = Manifest(chunks: [chunk(0), chunk(0)]).encoded
        #expect(bytes.last == 2)
        // 2 to the power of 40 repetitions.
        let many: [UInt8] = [0x80, 0x80, 0x80, 0x80, 0x80, 0x20]
        #expect(Manifest(encoded: Array(bytes.dropLast()) + many) == nil)
    }

    @Test("the outline of a manifest says the same without its lists of chunks")
    func outline() throws {
        let chunks = [chunk(1), chunk(0), chunk(0), chunk(0), chunk(2, length: 9)]
        let manifest = Manifest(chunks: chunks)
        let outline = try #require(ManifestOutline(encoded: manifest.encoded))
        let list = outline.entries[0].chunks
        #expect(list == ManifestOutline(manifest).entries[0].chunks)
        #expect(list.count == 5 && list.bytes == 16 << 20 | 9)
        #expect(list.shortest == 9 && list.longest == 4 << 20)
        #expect(ManifestOutline(encoded: Array(manifest.encoded.dropLast())) == nil)
    }
}
