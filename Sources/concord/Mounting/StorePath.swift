import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// The path of a store that exists or will be created, resolved and checked. Checking creates
/// nothing.
struct StorePath {
    let path: FilePath
    let text: String
    /// The directories above the store that do not exist yet. Only the default path may lack some.
    private let missingParents: [FilePath]

    /// The default path: ~/.local/share/concord/NAME, where NAME is the mount point's name.
    static func defaultPath(for mountPoint: FilePath) throws(VolumeError) -> FilePath {
        let home = getenv("HOME").map { String(cString: $0) } ?? ""
        guard home.hasPrefix("/") else {
            throw VolumeError(
                .invalid, "HOME is not set, so there is no default store; give one with --store")
        }
        let name = ((try? mountPoint.resolvedParent()) ?? mountPoint).name
        guard !name.bytes.isEmpty else {
            throw VolumeError(
                .invalid,
                "the mount point \(mountPoint) has no name for a default store; give one with "
                    + "--store"
            )
        }
        let data = getenv("XDG_DATA_HOME").map { String(cString: $0) } ?? ""
        let base = data.hasPrefix("/") ? FilePath(data) : FilePath(home + "/.local/share")
        return base.appending("concord").appending(name)
    }

    init(_ given: FilePath, createsParents: Bool) throws(VolumeError) {
        (path, missingParents) = try StorePath.resolve(given)
        guard let text = String(validating: path.bytes, as: UTF8.self) else {
            throw VolumeError(
                .invalid, "the name of the store \(path) is not UTF-8; choose another one")
        }
        self.text = text
        if let parent = missingParents.first, !createsParents {
            throw VolumeError(
                .notFound,
                "the directory \(parent), in which the store \(given) would be made, does not exist"
            )
        }
        try checkContents()
        try checkFileSystem()
    }

    /// Creates the directories above the store. The volume creates the store itself.
    func makeParents() throws(VolumeError) {
        for parent in missingParents {
            let result = parent.withCString { cl_mkdirat(AT_FDCWD, $0, 0o700) }
            if result < 0, result != -EEXIST {
                throw VolumeError(
                    .system, "cannot make the directory \(parent) for the store: \(Errno(-result))")
            }
        }
    }

    /// Neither may lie in the other: the mount would hide the store, or the store's own files would
    /// become documents.
    func check(against mountPoint: FilePath) throws(VolumeError) {
        if path == mountPoint || path.lies(in: mountPoint) {
            throw VolumeError(
                .invalid,
                "the store \(path) is inside the mount point \(mountPoint), which would hide "
                    + "it; put one of them elsewhere"
            )
        }
        if mountPoint.lies(in: path) {
            throw VolumeError(
                .invalid,
                "the mount point \(mountPoint) is inside the store \(path); put one of them "
                    + "elsewhere"
            )
        }
    }

    /// Resolves the part of the path that exists and appends the rest as given. The second result
    /// is the missing directories above the store.
    private static func resolve(_ given: FilePath) throws(VolumeError) -> (FilePath, [FilePath]) {
        var (here, rest) = (given.absolute, [Name]())
        while true {
            do throws(Errno) {
                let base = try here.resolved()
                let whole = base.appending(rest)
                let parents = rest.indices.dropLast().map { base.appending(Array(rest[...$0])) }
                return (whole, parents)
            } catch {
                guard error == .notFound, here.bytes != [UInt8(ascii: "/")] else {
                    throw VolumeError(
                        error == .denied ? .denied : .invalid,
                        "the store \(given) cannot be reached: \(error)")
                }
                if !here.name.bytes.isEmpty { rest.insert(here.name, at: 0) }
                here = here.parent
            }
        }
    }

    private func checkContents() throws(VolumeError) {
        guard let kind = path.kind else { return }
        guard kind == .directory else {
            throw VolumeError(
                .invalid,
                "the store \(path) is not a directory; name a directory, or a path that is free")
        }
        guard let names = names(in: path) else {
            throw VolumeError(.denied, "the store \(path) cannot be read: \(Errno(errno))")
        }
        let marks = ["journal.sqlite", "tree", "lock"].map { Name($0) }
        let strangers = names.filter { $0 != Name("lost+found") }
        guard strangers.isEmpty || names.contains(where: marks.contains) else {
            throw VolumeError(
                .invalid,
                "\(path) has other files in it (\(strangers[0]), …) and is not a store; name an "
                    + "empty or new directory"
            )
        }
    }

    private func checkFileSystem() throws(VolumeError) {
        var existing = path
        while (try? existing.status()) == nil, existing.bytes != [UInt8(ascii: "/")] {
            existing = existing.parent
        }
        guard existing.withCString({ cl_filesystem_type($0) }) == CL_FUSE,
            let device = try? existing.status().st_dev
        else { return }
        let entry = try MountTable().entries.last { $0.device == UInt64(device) }
        guard let entry, entry.isConcord else { return }
        throw VolumeError(
            .invalid,
            "the store \(path) would be on the Concord volume mounted on \(entry.mountPoint); "
                + "put it on a disk"
        )
    }
}

extension FilePath {
    func lies(in directory: FilePath) -> Bool {
        let front =
            directory.bytes.last == UInt8(ascii: "/")
            ? directory.bytes : directory.bytes + [UInt8(ascii: "/")]
        return bytes.starts(with: front)
    }
}
