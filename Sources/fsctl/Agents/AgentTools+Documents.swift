import CLinux
import Control
import Glibc
import Model
import SystemCalls

// Listing, reading and writing.
extension AgentTools {
    /// The largest document that is returned, in bytes. Larger ones must be opened as files.
    private static let readMax: UInt64 = 16 << 20
    private static let listMax = 10_000

    func list(_ arguments: JSONValue) throws(VolumeError) -> Outcome {
        let folder = try place(arguments)
        let stream = folder.withCString { opendir($0) }
        guard let stream else {
            throw VolumeError(.notFound, "\(folder) cannot be listed: \(Errno(errno))")
        }
        defer { closedir(stream) }
        var names: [Name] = []
        while names.count <= Self.listMax, let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { Name(cString: $0) }
            }
            if name != Name("."), name != Name("..") { names.append(name) }
        }
        let isWhole = names.count <= Self.listMax
        var entries: [JSONValue] = []
        for name in names.prefix(Self.listMax).sorted() {
            guard let status = try? folder.appending(name).status() else { continue }
            entries.append([
                "name": .text(name.text), "kind": .text("\(FileKind(status))"),
                "size": .integer(Int64(status.st_size)),
                "modified": .integer(Int64(status.st_mtim.tv_sec)),
            ])
        }
        return Outcome(["entries": .list(entries), "complete": .bool(isWhole)])
    }

    /// The contents are those of the recorded version, so they fit together.
    func read(_ arguments: JSONValue) throws(VolumeError) -> Outcome {
        let document = try Document(place(arguments))
        let history = try document.history()
        let version: VersionReport
        if let wanted = arguments["version"]?.text {
            version = try VersionSpecifier(wanted).find(
                in: history.versions, of: "\(document.given)")
        } else if let current = history.versions.last(where: { $0.kind == "current" }) {
            version = current
        } else {
            throw VolumeError(.notFound, "\(document.given) has no version yet")
        }
        guard !history.package else {
            throw VolumeError(
                .invalid,
                "\(document.given) is a package, which is a folder: list it and open its files")
        }
        guard version.size <= Self.readMax else {
            throw VolumeError(
                .invalid,
                "\(document.given) has \(version.size) bytes, more than are read at once: open it "
                    + "as a file")
        }
        var contents: [UInt8] = []
        try VersionContents(of: version, in: document).read(0) { (piece) throws(VolumeError) in
            contents += piece
        }
        var value: [String: JSONValue] = [
            "version": .text(version.id), "number": .integer(Int64(version.number)),
            "kind": .text(version.kind), "size": .integer(Int64(contents.count)),
            "program": .text(version.program), "person": .text(version.person),
        ]
        if let session = version.session { value["session"] = .text(session) }
        let conflicts = history.versions.count { $0.kind == "conflict" }
        if conflicts > 0 { value["conflicts"] = .integer(Int64(conflicts)) }
        if let text = String(validating: contents, as: UTF8.self) {
            value["text"] = .text(text)
        } else {
            value["base64"] = .text(base64(contents))
        }
        return Outcome(.object(value))
    }

    // MARK: Writing

    func write(_ arguments: JSONValue) throws(VolumeError) -> Outcome {
        let target = try place(arguments)
        let contents: [UInt8]
        switch (arguments["text"]?.text, arguments["base64"]?.text) {
        case (let text?, nil): contents = Array(text.utf8)
        case (nil, let text?):
            guard let decoded = bytes(base64: text) else {
                throw VolumeError(.invalid, "base64 is not base64")
            }
            contents = decoded
        default: throw VolumeError(.invalid, "give either text or base64")
        }
        guard let base = arguments["base"]?.text else { return try make(target, contents) }
        let document = try Document(target)
        let history = try document.history()
        let version = try VersionSpecifier(base).find(in: history.versions, of: "\(document.given)")
        guard target.kind == .file, !history.package else {
            throw VolumeError(.invalid, "\(target) is not a file")
        }
        let draft = Draft(target: target)
        try draft.write(contents, base: version)
        return try outcome(document, before: history, base: version)
    }

    private func make(_ target: FilePath, _ contents: [UInt8]) throws(VolumeError) -> Outcome {
        let draft = Draft(target: target)
        do throws(VolumeError) {
            try draft.write(contents, base: nil)
        } catch {
            guard error.code == .busy else { throw error }
            throw VolumeError(
                .busy,
                "\(target) is there already: read it, and give the version that you read as base")
        }
        let current = try Document(target).history().versions.last { $0.kind == "current" }
        return Outcome(["outcome": "created", "version": .text(current?.id ?? "")])
    }

    /// Returns the result of a save. If the save was stale, the contents that it replaced are in
    /// conflict with it, unless they have been merged already.
    private func outcome(_ document: Document, before: HistoryReport, base: VersionReport)
        throws(VolumeError) -> Outcome
    {
        // The daemon records a save after the rename has returned. Until then the history does not
        // show what the save has replaced.
        do throws(VolumeError) {
            try document.waitUntilRecorded()
        } catch {
            guard error.code == .timeout else { throw error }
            throw VolumeError(
                .timeout,
                "\(document.given) is saved, but not recorded yet. Ask for conflicts later: "
                    + "it is not known whether the save replaced contents that you had not seen.")
        }
        let known = Set(before.versions.filter { $0.kind == "conflict" }.map(\.id))
        var now = try document.history()
        let new = now.versions.filter { $0.kind == "conflict" && !known.contains($0.id) }
        var reasons: [String] = []
        if !new.isEmpty {
            do throws(VolumeError) {
                for version in new {
                    let report = try document.ask(.merge, as: MergeReport.self) {
                        $0.explain = true
                        $0.number = version.number
                    }
                    // Otherwise the rules require that a person decides.
                    guard report.outcome == "clean" else {
                        reasons += report.sentences
                        continue
                    }
                    _ = try document.ask(.merge, as: MergeReport.self) {
                        $0.numbers = [version.number]
                    }
                }
            } catch {
                // Another program has resolved the conflict meanwhile.
                guard error.code == .notFound else { throw error }
            }
            now = try document.history()
        }
        let open = now.versions.filter { $0.kind == "conflict" && !known.contains($0.id) }
        let current = now.versions.last { $0.kind == "current" }
        let previous = before.versions.last { $0.kind == "current" }
        let isStale = previous.map { $0.content != base.content } ?? false
        let word = !open.isEmpty ? "conflict" : isStale || !new.isEmpty ? "merged" : "saved"
        var value: [String: JSONValue] = [
            "outcome": .text(word), "version": .text(current?.id ?? ""),
            "number": .integer(Int64(current?.number ?? 0)),
        ]
        if !open.isEmpty {
            value["conflicts"] = .list(
                open.map { version in
                    [
                        "version": .text(version.id), "number": .integer(Int64(version.number)),
                        "person": .text(version.person), "program": .text(version.program),
                        "session": .text(version.session ?? ""),
                    ]
                })
            value["reasons"] = .list(reasons.map { .text($0) })
        }
        return Outcome(.object(value))
    }
}

/// A new file beside the target, which replaces the target by a rename.
private struct Draft {
    let target: FilePath

    /// - Parameter base: The version that the contents were made from; nil for a new file.
    /// - Throws: `.busy` if there is no base and the target exists.
    func write(_ contents: [UInt8], base: VersionReport?) throws(VolumeError) {
        let number = String(UInt64.random(in: 0 ... .max), radix: 36)
        let name = Restoration.partName(Name(".\(number)"))
        let path = target.parent.appending(name)
        let descriptor = path.withCString {
            cl_openat(AT_FDCWD, $0, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
        }
        guard descriptor >= 0 else { throw failure(Errno(-descriptor)) }
        let file = Descriptor(owning: descriptor)
        do throws(Errno) {
            try writeFully(file.raw, contents, at: 0)
            try applyLocalAttributes(file.raw, base)
            try file.sync(dataOnly: false)
            let result = path.withCString { from in
                target.withCString {
                    // RENAME_NOREPLACE
                    cl_renameat2(AT_FDCWD, from, AT_FDCWD, $0, base == nil ? 1 : 0)
                }
            }
            try check(result)
        } catch {
            _ = path.withCString { unlink($0) }
            throw failure(error)
        }
    }

    private func applyLocalAttributes(_ file: Int32, _ base: VersionReport?) throws(Errno) {
        guard let base else {
            let mask = umask(0)
            umask(mask)
            try check(cl_chmod_fd(file, 0o666 & ~mask))
            return
        }
        _ = try Restoration.liken(file, to: target, mode: nil)
        let time = Timestamp(nanoseconds: base.modified)
        let text = Array("\(base.size) \(time.seconds) \(time.nanosecondsOfSecond)".utf8)
        try check(cl_setxattr_fd(file, "user.concord.base", text, text.count, 0))
    }

    private func failure(_ error: Errno) -> VolumeError {
        switch error {
        case .noSpace: VolumeError(.full, "no space is left for \(target)")
        case .denied, Errno(EPERM): VolumeError(.denied, "you may not write \(target)")
        case .exists: VolumeError(.busy, "\(target) is there already")
        case .notFound: VolumeError(.notFound, "the folder of \(target) does not exist")
        default: VolumeError(.system, "\(target) cannot be written: \(error)")
        }
    }
}
