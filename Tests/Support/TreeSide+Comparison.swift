import CLinux
import Foundation
import Glibc

extension TreeSide {
    /// The text of an errno, or the number that a call returned.
    func said(_ result: some SignedInteger) -> String {
        if result >= 0 { return "\(result)" }
        // `cl_` functions return the negative errno; libc returns -1 and sets errno.
        let code = result == -1 ? errno : Int32(-result)
        return " \(String(cString: strerror(code)));"
    }

    func size(_ descriptor: Int32) -> String {
        var status = Glibc.stat()
        return fstat(descriptor, &status) == 0 ? " size \(status.st_size)" : said(-1)
    }

    /// Bytes in which all parts differ, so that shifted contents are noticed.
    func pattern(_ count: Int, _ fill: UInt8) -> [UInt8] {
        (0..<max(count, 1)).map { fill &+ UInt8(truncatingIfNeeded: $0 &* 31 / 17) }
    }

    func digest(_ data: Data) -> String {
        var sum: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in data { sum = (sum ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return " \(data.count):" + String(sum, radix: 16)
    }

    /// The attributes of an item that must be equal on both sides.
    func status(_ path: String) -> String {
        var status = Glibc.stat()
        guard lstat("\(root)/\(path)", &status) == 0 else { return said(-1) }
        return describe(status)
    }

    private func describe(_ status: Glibc.stat) -> String {
        let directory = status.st_mode & S_IFMT == S_IFDIR
        // The size of a directory depends on its file system.
        return " mode \(String(status.st_mode, radix: 8)) links \(status.st_nlink)"
            + " owner \(status.st_uid):\(status.st_gid)"
            + (directory ? "" : " size \(status.st_size)")
    }

    func attributes(of descriptor: Int32) -> String {
        var names = [CChar](repeating: 0, count: 4096)
        let length = cl_listxattr_fd(descriptor, &names, names.count)
        guard length >= 0 else { return said(length) }
        let listed = names.prefix(length).split(separator: 0).map {
            String(decoding: $0.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
        return listed.sorted().map { name in
            var value = [UInt8](repeating: 0, count: 4096)
            let count = cl_getxattr_fd(descriptor, name, &value, value.count)
            return " \(name)=" + (count < 0 ? said(count) : digest(Data(value.prefix(count))))
        }.joined()
    }

    func paths() -> [String] {
        (try? FileManager.default.subpathsOfDirectory(atPath: root).sorted()) ?? []
    }

    struct Item: Equatable {
        let description: String
        let contents: Data
    }

    /// The whole tree, item by item, including which names belong to one file.
    func items() throws -> [String: Item] {
        var items: [String: Item] = [:]
        var first: [ino_t: String] = [:]
        func walk(_ directory: String) throws {
            let place = directory.isEmpty ? root : "\(root)/\(directory)"
            for name in try FileManager.default.contentsOfDirectory(atPath: place).sorted() {
                let path = directory.isEmpty ? name : "\(directory)/\(name)"
                var status = Glibc.stat()
                guard lstat("\(root)/\(path)", &status) == 0 else {
                    items[path] = Item(description: said(-1), contents: Data())
                    continue
                }
                var about = describe(status)
                var contents = Data()
                switch status.st_mode & S_IFMT {
                case S_IFDIR: try walk(path)
                case S_IFLNK: about += " -> " + perform(.readLink(path))
                default:
                    about += " same as \(first[status.st_ino] ?? path)"
                    first[status.st_ino] = first[status.st_ino] ?? path
                    contents = try Data(contentsOf: URL(filePath: "\(root)/\(path)"))
                }
                about += attributesByName(path, status)
                items[path] = Item(description: about, contents: contents)
            }
        }
        try walk("")
        return items
    }

    private func attributesByName(_ path: String, _ status: Glibc.stat) -> String {
        guard status.st_mode & S_IFMT != S_IFLNK else { return "" }
        let descriptor = open("\(root)/\(path)", 0o10_000_000 | O_CLOEXEC)
        guard descriptor >= 0 else { return said(descriptor) }
        defer { close(descriptor) }
        return attributes(of: descriptor)
    }
}
