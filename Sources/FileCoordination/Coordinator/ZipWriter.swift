import Control
import Foundation
import Glibc

/// Writes a directory into a zip file without compression; programs that upload it may compress it.
/// Names are UTF-8, sizes and offsets are unlimited (ZIP64), and symbolic links stay links. The
/// format:
/// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
struct ZipWriter: ~Copyable {
    private let file: FileWriter
    private var directory: [UInt8] = []
    private var count = 0

    private struct Entry {
        var name: [UInt8]
        var status: stat
        var crc: UInt32 = 0
        var size: UInt64 = 0
        var offset: UInt64 = 0
    }

    /// The directory's own name is the first component of all names in the archive.
    static func archive(_ directory: FilePath, to archive: FilePath) throws(CopyFailure) {
        var writer = ZipWriter(file: try FileWriter(archive))
        try writer.add(directory, as: directory.name.bytes)
        try writer.finish()
    }

    private init(file: FileWriter) { self.file = file }

    private mutating func add(_ path: FilePath, as name: [UInt8]) throws(CopyFailure) {
        let status = try CopyFailure.status(path)
        switch FileKind(status) {
        case .directory:
            try write(Entry(name: name + [UInt8(ascii: "/")], status: status), nil)
            for child in try children(of: path) {
                try add(
                    FilePath(bytes: path.bytes + [0x2F] + child), as: name + [0x2F] + child)
            }
        case .file:
            try write(Entry(name: name, status: status), try FileReader(path))
        case .symlink:
            try write(Entry(name: name, status: status), try FileReader(linkAt: path))
        case .other: break
        }
    }

    private func children(of path: FilePath) throws(CopyFailure) -> [[UInt8]] {
        guard let stream = path.withCString({ opendir($0) }) else { throw CopyFailure(path) }
        defer { closedir(stream) }
        var names: [[UInt8]] = []
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
            if name != [0x2E] && name != [0x2E, 0x2E] { names.append(name) }
        }
        return names.sorted { $0.lexicographicallyPrecedes($1) }
    }

    // MARK: The format

    /// Writes one entry. Its header precedes the contents but has their checksum, so it is written
    /// again after them.
    private mutating func write(_ entry: Entry, _ contents: FileReader?) throws(CopyFailure) {
        var entry = entry
        entry.offset = file.offset
        try file.write(header(entry))
        if let contents {
            var crc = CRC32()
            while let piece = try contents.next() {
                crc.add(piece)
                entry.size += UInt64(piece.count)
                try file.write(piece)
            }
            entry.crc = crc.value
            try file.rewrite(header(entry), at: entry.offset)
        }
        directory += record(entry)
        count += 1
    }

    private func header(_ entry: Entry) -> [UInt8] {
        var bytes = ZipBytes()
        bytes.add(0x0403_4b50 as UInt32)
        bytes.addCommon(entry.crc, entry.status, nameLength: entry.name.count, extraLength: 20)
        bytes.bytes += entry.name
        // The ZIP64 sizes are always there, because the size is not known for certain beforehand.
        bytes.addSizes([entry.size, entry.size])
        return bytes.bytes
    }

    private func record(_ entry: Entry) -> [UInt8] {
        var bytes = ZipBytes()
        bytes.add(0x0201_4b50 as UInt32)
        // Made by Unix; version 4.5 of the format.
        bytes.add(0x032d as UInt16)
        bytes.addCommon(entry.crc, entry.status, nameLength: entry.name.count, extraLength: 28)
        bytes.add(0 as UInt16)  // No comment,
        bytes.add(0 as UInt16)  // on the first disk,
        bytes.add(0 as UInt16)  // a binary.
        let isDirectory: UInt32 = FileKind(entry.status) == .directory ? 0x10 : 0
        bytes.add(UInt32(entry.status.st_mode & 0xFFFF) << 16 | isDirectory)
        bytes.add(UInt32.max)
        bytes.bytes += entry.name
        bytes.addSizes([entry.size, entry.size, entry.offset])
        return bytes.bytes
    }

    private consuming func finish() throws(CopyFailure) {
        let start = file.offset
        try file.write(directory)
        var bytes = ZipBytes()
        bytes.add(0x0606_4b50 as UInt32)
        bytes.add(44 as UInt64)
        bytes.add(0x032d as UInt16)
        bytes.add(45 as UInt16)
        bytes.add(0 as UInt32)
        bytes.add(0 as UInt32)
        bytes.add(UInt64(count))
        bytes.add(UInt64(count))
        bytes.add(UInt64(directory.count))
        bytes.add(start)
        bytes.add(0x0706_4b50 as UInt32)
        bytes.add(0 as UInt32)
        bytes.add(start + UInt64(directory.count))
        bytes.add(1 as UInt32)
        bytes.add(0x0605_4b50 as UInt32)
        bytes.add(0 as UInt32)
        bytes.add(UInt32.max)
        bytes.add(UInt64.max)
        bytes.add(0 as UInt16)
        try file.write(bytes.bytes)
    }
}

/// Encodes numbers as zip files do, the lowest byte first.
private struct ZipBytes {
    var bytes: [UInt8] = []

    mutating func add(_ number: some FixedWidthInteger) {
        withUnsafeBytes(of: number.littleEndian) { bytes += $0 }
    }

    /// Adds what the two headers of an entry have in common, except for the name.
    mutating func addCommon(_ crc: UInt32, _ status: stat, nameLength: Int, extraLength: Int) {
        add(45 as UInt16)
        add(0x0800 as UInt16)  // The name is UTF-8.
        add(0 as UInt16)  // Stored.
        var (time, parts) = (status.st_mtim.tv_sec, tm())
        localtime_r(&time, &parts)
        let year = min(max(parts.tm_year - 80, 0), 127)
        let clock = parts.tm_hour * 2048 + parts.tm_min * 32 + parts.tm_sec / 2
        let day = year * 512 + (parts.tm_mon + 1) * 32 + parts.tm_mday
        add(UInt16(clock))
        add(UInt16(day))
        add(crc)
        add(UInt64.max)  // Both sizes are in the extra field.
        add(UInt16(nameLength))
        add(UInt16(extraLength))
    }

    /// Adds the extra field of ZIP64; in a central directory record it has the offset, too.
    mutating func addSizes(_ numbers: [UInt64]) {
        add(1 as UInt16)
        add(UInt16(numbers.count * 8))
        for number in numbers { add(number) }
    }
}

/// The checksum that zip files use.
struct CRC32 {
    private static let table: [UInt32] = (0..<256).map { (index: UInt32) -> UInt32 in
        var value = index
        for _ in 0..<8 { value = value & 1 == 1 ? 0xEDB8_8320 ^ (value >> 1) : value >> 1 }
        return value
    }
    private var state = UInt32.max

    mutating func add(_ bytes: [UInt8]) {
        CRC32.table.withUnsafeBufferPointer { table in
            var value = state
            for byte in bytes {
                let index = (value ^ UInt32(byte)) & 0xFF
                value = table[Int(index)] ^ (value >> 8)
            }
            state = value
        }
    }

    var value: UInt32 { ~state }
}
