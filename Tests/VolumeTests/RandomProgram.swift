import CLinux
import Foundation
import Glibc
import Model
import SystemCalls

@testable import Volume

/// Programs that do random operations on a few names, and a list of all contents that were saved
/// under a document's name. Each of these must stay reachable as a version.
struct RandomProgram {
    let tree: ProgramTree
    var noise: Noise
    /// Contents that were saved.
    var saved: Set<[UInt8]> = []
    var log: [String] = []
    /// Whether documents are also renamed to names of temporary files. If the daemon is killed
    /// then, the file is not known to be a document any more, and its contents are lost when the
    /// program removes it.
    var hidesDocuments = true
    private var counter = 0
    private var handles: [(handle: ProgramTree.Handle, program: Program)] = []
    private let programs = (1...3).map { Program(process: Int32($0), name: "p\($0)") }
    private let directories = ["", "d/", "e/", "d/f/"]
    private let documents = ["a", "b", "c.txt", "c.txt~", "big"]
    private let locals = ["x.tmp", ".c.txt.swp"]

    init(_ tree: ProgramTree, seed: UInt64) {
        self.tree = tree
        noise = Noise(seed: seed)
    }

    private mutating func any<T>(_ list: [T]) -> T { list[Int(noise.next() % UInt64(list.count))] }
    private mutating func chance(_ percent: UInt64) -> Bool { noise.next() % 100 < percent }

    /// Never returns the same contents twice.
    private mutating func content() -> [UInt8] {
        counter += 1
        let text = "<\(counter)>" + String(repeating: "-", count: Int(noise.next() % 600))
        return Array(text.utf8)
    }

    private mutating func path() -> String { any(directories) + any(documents) }
    private mutating func temporary() -> String { any(directories) + any(documents + locals) }

    private func isLocal(_ path: String) -> Bool {
        tree.volume.ignoreFile.current.matches(Name(path.split(separator: "/").last!))
    }

    /// A file was closed, or was renamed to a document's name.
    private mutating func note(_ path: String) {
        guard !isLocal(path), let bytes = tree.contents(path), !bytes.isEmpty else { return }
        saved.insert(bytes)
    }

    mutating func step() {
        let program = any(programs)
        let kind = noise.next() % 15
        do {
            try step(kind, program)
        } catch {
            // The tree refuses the operation, as it would for a program: the name does not exist or
            // is in use.
        }
    }

    private mutating func step(_ kind: UInt64, _ program: Program) throws {
        switch kind {
        case 0...2: try save(path(), program)
        case 3: try edit(path(), program)
        case 4, 5: try replace(program)
        case 6: try vim(path(), program)
        case 7:
            let path = temporary()
            log.append("\(program.process) unlink \(path)")
            try tree.unlink(path, by: program)
        case 8: try move(program)
        case 9: try link(program)
        case 10: try exchange(program)
        case 11: try directory(program)
        case 12: try hold(path(), program)
        case 13: try release()
        default: try truncate(path(), program)
        }
    }

    private func isOpenForWriting(_ path: String) -> Bool {
        var status = stat()
        guard stat(tree.real(path), &status) == 0 else { return false }
        return handles.contains { held in
            var other = stat()
            fstat(held.handle.descriptor, &other)
            return other.st_ino == status.st_ino
        }
    }

    private mutating func save(_ path: String, _ program: Program) throws {
        let bytes = content()
        log.append("\(program.process) save \(path) \(bytes.prefix(9).count) \(label(bytes))")
        let isShared = isOpenForWriting(path)
        try tree.save(path, bytes, by: program)
        if !isShared { note(path) }
    }

    private func label(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.prefix { $0 != UInt8(ascii: "-") }, as: UTF8.self)
    }

    private mutating func edit(_ path: String, _ program: Program) throws {
        guard let size = tree.contents(path)?.count else { return }
        let bytes = content()
        let offset = Int64(noise.next() % UInt64(size + 10))
        log.append("\(program.process) edit \(path) at \(offset) \(label(bytes))")
        let isShared = isOpenForWriting(path)
        try tree.writeInPlace(path, bytes, at: offset, by: program)
        if !isShared { note(path) }
    }

    private mutating func replace(_ program: Program) throws {
        let (from, to) = (temporary(), path())
        try save(from, program)
        log.append("\(program.process) rename \(from) over \(to)")
        try tree.rename(from, to, by: program)
        if !isOpenForWriting(to) { note(to) }
    }

    private mutating func vim(_ path: String, _ program: Program) throws {
        let backup = path + "~"
        log.append("\(program.process) vim \(path)")
        try tree.rename(path, backup, by: program)
        try save(path, program)
        if chance(60) { try tree.unlink(backup, by: program) }
    }

    private mutating func move(_ program: Program) throws {
        let (from, to) = (temporary(), hidesDocuments ? temporary() : path())
        log.append("\(program.process) move \(from) to \(to)")
        try tree.rename(from, to, by: program)
        if !isOpenForWriting(to) { note(to) }
    }

    private mutating func link(_ program: Program) throws {
        let (from, to) = (path(), path())
        log.append("\(program.process) link \(from) as \(to)")
        try tree.link(from, to, by: program)
    }

    private mutating func exchange(_ program: Program) throws {
        let (a, b) = (hidesDocuments ? temporary() : path(), path())
        log.append("\(program.process) exchange \(a) \(b)")
        try tree.exchange(a, b, by: program)
        for path in [a, b] where !isOpenForWriting(path) { note(path) }
    }

    private mutating func directory(_ program: Program) throws {
        let names = ["d", "e", "d/f", "e/g"]
        switch noise.next() % 3 {
        case 0:
            let (from, to) = (any(names), any(names))
            log.append("\(program.process) rename directory \(from) \(to)")
            try tree.rename(from, to, by: program)
        case 1:
            let name = any(names)
            log.append("\(program.process) rmdir \(name)")
            try tree.rmdir(name, by: program)
        default:
            let name = any(names)
            log.append("\(program.process) mkdir \(name)")
            try tree.mkdir(name, by: program)
        }
    }

    private mutating func hold(_ path: String, _ program: Program) throws {
        guard handles.count < 3 else { return }
        let flags = chance(50) ? O_CREAT | O_RDWR : O_RDWR | O_TRUNC
        let handle = try tree.open(path, flags, by: program)
        let bytes = content()
        log.append("\(program.process) hold \(path) \(label(bytes))")
        try tree.write(handle, bytes, at: 0)
        handles.append((handle, program))
    }

    private mutating func release() throws {
        guard !handles.isEmpty else { return }
        let index = Int(noise.next() % UInt64(handles.count))
        let (handle, program) = handles.remove(at: index)
        let bytes = content()
        try tree.write(handle, bytes, at: Int64(noise.next() % 50))
        let written = try tree.read(handle)
        let isLast = handle.node.writing.writers == 1
        var status = stat()
        fstat(handle.descriptor, &status)
        let isTemporary =
            status.st_nlink == 0 || handle.node.isTemporary || handle.node.traits.contains(.local)
            || isShownLocally(status)
            || tree.volume.ignoreFile.current.matches(handle.node.name)
        log.append(
            "\(program.process) release \(label(bytes)), last \(isLast), lost \(isTemporary)")
        tree.close(handle)
        if isLast, !isTemporary, !written.isEmpty { saved.insert(written) }
    }

    /// Whether all names of the file are local ones.
    private func isShownLocally(_ status: stat) -> Bool {
        var hasLocal = false
        for directory in directories + ["e/g/"] {
            for name in documents + locals + documents.map({ $0 + "~" }) {
                var found = stat()
                guard lstat(tree.real(directory + name), &found) == 0,
                    found.st_ino == status.st_ino
                else { continue }
                if !isLocal(name) { return false }
                hasLocal = true
            }
        }
        return hasLocal
    }

    private mutating func truncate(_ path: String, _ program: Program) throws {
        let size = Int64(noise.next() % 300)
        log.append("\(program.process) truncate \(path) to \(size)")
        let isShared = isOpenForWriting(path)
        try tree.truncate(path, to: size, by: program)
        if !isShared { note(path) }
    }

    /// The daemon was killed, so it does not know the programs' open files any more.
    mutating func forgetHandles() {
        for (handle, _) in handles {
            close(handle.descriptor)
            close(handle.path)
        }
        handles = []
    }

    mutating func releaseAll() throws { while !handles.isEmpty { try release() } }
}
