import Journal
import Model
import Support
import Testing

@testable import Sync

/// Which versions only a hub can have. Only these are withdrawn if neither the hub nor this device
/// has their contents.
@Suite("Versions that cannot be read") struct UnreadableVersionTests {
    @Test("what was saved here and never evicted may be readable later") func letGo() throws {
        let directory = try TemporaryDirectory()
        let journal = try Journal.open(path: "\(directory.path)/journal.sqlite", mayCreate: true)
        let chunk = ChunkReference(id: .sha256([1]), length: 1)
        let manifest = Manifest(chunks: [chunk]).encoded
        func version(_ number: Int, wasAtHub: Bool) -> Version {
            Version(
                number: number, kind: .conflict, device: .random(), deviceName: "", person: "",
                program: "", name: Name("f"), size: 1, modified: 0, saved: 0, content: chunk.id,
                durability: wasAtHub ? .hub : .disk)
        }
        let unsent = version(1, wasAtHub: false)
        let named = version(2, wasAtHub: true)
        let sent = version(3, wasAtHub: true)
        let item = Item(id: .random(), parent: Item.root, name: Name("f"), kind: .file)
        func letGo() throws -> [Bool] {
            try journal.read { reader in
                try [unsent, named, sent].map { try reader.wereLetGo($0.id, of: item.id) }
            }
        }
        try journal.write { t in
            let key = try t.insert(item)
            try t.insert(unsent, of: key, manifest: manifest)
            try t.insert(named, of: key, manifest: [])
            try t.insert(sent, of: key, manifest: manifest)
        }
        #expect(try letGo() == [false, true, true])
        // The journal says that the chunk is here. Whether it can be read now does not matter.
        try journal.write { t in
            try t.setPlace(
                chunk.id, ChunkLocation(pack: 1, offset: 0, storedLength: 1, length: 1))
        }
        #expect(try letGo() == [false, true, false])
        try journal.close()
    }
}
