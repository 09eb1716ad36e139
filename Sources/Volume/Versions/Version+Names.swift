import Model

// The names under which versions are shown.
extension Version {
    /// The file name of a version, such as `2026-11-21 08.15.30 laptop 3.txt`: time (UTC), device
    /// and number, with the document's extension so that programs open it. The zero-padded time
    /// makes `ls` list the oldest first. The name is always a valid one: the device's name comes
    /// from the hub, and one invalid name would make the whole directory unreadable.
    package func fileName(of document: Name) -> Name {
        let time = Array("\(Timestamp(nanoseconds: saved).fileName) ".utf8)
        var ending = Array(" \(number)".utf8)
        let type = document.fileExtension
        if !type.isEmpty, type.count < 100 { ending += [UInt8(ascii: ".")] + type }
        var device: [UInt8] = []
        for character in deviceName {
            let isShown =
                character != "/"
                && !character.unicodeScalars.contains {
                    $0.value < 32 || (127..<160).contains($0.value)
                }
            let bytes = isShown ? Array(character.utf8) : [UInt8(ascii: "_")]
            guard time.count + device.count + bytes.count + ending.count <= 255 else { break }
            device += bytes
        }
        return Name(bytes: time + device + ending)
    }

    /// The name that a document had when the version was saved. It may come from the hub; if it is
    /// not valid, the document has its present name.
    func pastName(of document: Name) -> Name {
        name.isSafe ? name : document
    }
}
