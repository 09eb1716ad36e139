import Foundation
import Journal
import Model

/// A temporary directory of a test, which is removed with this object, and samples to fill a
/// journal with.
final class Scratch {
    let directory: String

    init() throws {
        var template = Array("/tmp/journal-tests-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw CocoaError(.fileWriteUnknown) }
        directory = String(
            decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    var path: String { directory + "/journal.sqlite" }

    func create() throws(VolumeError) -> Journal { try Journal.open(path: path, mayCreate: true) }

    /// Creates a journal with `count` files named f0, f1, …, and closes it.
    func createClosed(items count: Int) throws {
        let journal = try create()
        try journal.write { transaction in
            for index in 0..<count {
                try transaction.insert(file("f\(index)", inode: UInt64(index)))
            }
        }
        try journal.close()
    }

    func contents(_ suffix: String = "") -> Data? {
        FileManager.default.contents(atPath: path + suffix)
    }

    func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
    }
}

func file(
    _ name: String, in parent: Int64 = Item.root, inode: UInt64 = 0, deleted: Int64? = nil
) -> Item {
    Item(parent: parent, name: Name(name), kind: .file, inode: inode, deleted: deleted)
}

func directory(_ name: String, in parent: Int64 = Item.root) -> Item {
    Item(parent: parent, name: Name(name), kind: .directory)
}

func digest(_ number: UInt64) -> Digest {
    Digest(.sha256, words: (number &* 0x9E37_79B9_7F4A_7C15, 1, 2, number))
}

func version(_ number: Int, content: UInt64 = 7, parents: [Identifier] = []) -> Version {
    Version(
        number: number, parents: parents, kind: .history, device: Identifier(high: 1, low: 2),
        deviceName: "Laptop", person: "ada", program: "vim", name: Name("draft.txt"),
        size: 12, modified: -5, saved: 1_700_000_000_000_000_000, content: digest(content),
        durability: .memory)
}

/// SplitMix64. A test that fails prints its seed.
struct Seeded: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// Returns the error's code, and checks that its message names the journal's file.
func failure<T>(naming path: String, _ body: () throws(VolumeError) -> T) -> VolumeError.Code? {
    do {
        _ = try body()
        return nil
    } catch {
        return error.message.contains(path) ? error.code : nil
    }
}
