import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// Where a store is or will be, resolved and found fit. Nothing is made by looking.
struct StorePlace {
    let path: FilePath
    let text: String
    /// Directories above it that do not exist yet; only the default place may have some.
    private let missingParents: [FilePath]

    /// ~/.local/share/concord/NAME, NAME being the mount point's own.
    static func usual(for mountPoint: FilePath) throws(VolumeError) -> FilePath {
        let home = getenv("HOME").map { String(cString: $0) } ?? ""
        guard home.hasPrefix("/") else {
            throw VolumeError(
                .invalid, "HOME is not set, so there is no usual store; give one with --store")
        }
        let name = ((try? mountPoint.resolvedParent()) ?? mountPoint).name
        guard !name.bytes.isEmpty else {
            throw VolumeError(
                .invalid,
                "the mount point \(mountPoint) has no name to call a store by; give one with "
                    + "--store"
            )
        }
        let data = getenv("XDG_DATA_HOME").map { String(cString: $0) } ?? ""
        let base = data.hasPrefix("/") ? FilePath(data) : FilePath(home + "/.local/share")
        return base.appending("concord").appending(name)
    }

    init(_ given: FilePath, mayMakeParents: Bool) throws(VolumeError) {
        (path, missingParents) = try StorePlace.resolve(given)
        guard let text = String(validating: path.bytes, as: UTF8.self) else {
            throw VolumeError(
                .invalid, "the name of the store \(path) is not UTF-8; choose another one")
        }
        self.text = text
        if let parent = missingParents.first, !mayMakeParents {
            throw VolumeError(
                .notFound,
                "the directory \(parent), in which the store \(given) would be made, does not exist"
            )
        }
        try checkContents()
        try checkFileSystem()
    }

    /// Before the store itself is made by the volume.
    func makeParents() throws(VolumeError) {
        for parent in missingParents {
            let result = parent.withCString { cl_mkdirat(AT_FDCWD, $0, 0o700) }
            if result < 0, result != -EEXIST {
                throw VolumeError(
                    .system, "cannot make the directory \(parent) for the store: \(Errno(-result))")
            }
        }
    }

    /// Neither may lie in the other: the mount would hide the store, or the store's own bytes would
    /// be documents.
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

    /// What exists is resolved; the rest is as given.
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
                "the store \(path) is not a directory; name a directory, or one to be made")
        }
        guard let names = names(in: path) else {
            throw VolumeError(.denied, "the store \(path) cannot be read: \(Errno(errno))")
        }
        let marks = ["journal.sqlite", "tree", "lock"].map { Name($0) }
        let strangers = names.filter { $0 != Name("lost+found") }
        guard strangers.isEmpty || names.contains(where: marks.contains) else {
            throw VolumeError(
                .invalid,
                "\(path) is not a store but a directory with other things in it "
                    + "(\(strangers[0]), …); name an empty or a new one"
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
