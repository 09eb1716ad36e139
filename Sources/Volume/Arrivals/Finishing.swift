import CLinux
import Glibc
import Model
import SystemCalls

/// Gives a prepared item what belongs to this device, just before it gets its place in the tree
/// (`Arrivals.applyLocalAttributes`).
struct Finishing {
    /// Its name in `incoming`.
    let name: Name
    let incoming: Int32
    let tree: Int32
    /// Whether a file that is replaced has the owner with which its new contents arrive. It is
    /// called only if something is replaced.
    var hasSameOwner: () -> Bool = { true }
    lazy var keepsOwner = hasSameOwner()

    /// - Parameter arrival: Nil if it is not known any more.
    mutating func finish(_ arrival: Arrival?, at path: [Name]) throws(Errno) {
        try apply([name], as: path, mode: arrival?.mode, owner: arrival?.attributes.owner)
        guard let arrival, let last = path.last else { return }
        // The attribute says what the name alone does not.
        if arrival.kind == .package || arrival.kind == .directory,
            Volume.isPackage(name: last) != (arrival.kind == .package)
        {
            let made = try openBeneath([name], from: incoming, flags: O_PATH)
            let value: [UInt8] = [UInt8(ascii: arrival.kind == .package ? "1" : "0")]
            try setAttribute("user.concord.package", value, of: made.raw)
        }
        guard arrival.kind == .package, let manifest = Manifest(encoded: arrival.manifest)
        else { return }
        for entry in manifest.entries where !entry.path.isEmpty {
            try apply(
                [name] + entry.names, as: path + entry.names, mode: entry.mode,
                isOfAnother: entry.isOfAnother)
        }
    }

    /// - Parameter isOfAnother: As in a manifest: the owner is not known, and is not the package's.
    private mutating func apply(
        _ made: [Name], as path: [Name], mode: UInt16?, owner: OwnerName? = nil,
        isOfAnother: Bool = false
    ) throws(Errno) {
        let file = try openBeneath(made, from: incoming, flags: O_PATH)
        let status = FileSnapshot(try file.status())
        var mode = mode
        var local: LocalAttributes
        if let old = try? openBeneath(path, from: tree, flags: O_PATH),
            let replaced = try? FileSnapshot(old.status()),
            replaced.mode & S_IFMT == status.mode & S_IFMT
        {
            local = try LocalAttributes(of: old.raw)
            if status.isFile { mode = mode ?? replaced.permissions }
            if !isOfAnother, !keepsOwner {
                local.takeOwner(from: try new(made, path).owned(by: owner))
            }
        } else {
            local = try new(made, path).owned(by: owner)
            if isOfAnother { local.takeOverflowOwner() }
        }
        guard !status.isSymlink else { return try local.setOwner(of: file.raw) }
        try IncomingAttributes(mode: mode ?? status.permissions).apply(to: file.raw, local: local)
    }

    /// What a new item gets: something in a package from the directory that was prepared with it.
    private func new(_ made: [Name], _ path: [Name]) throws(Errno) -> LocalAttributes {
        let parent =
            made.count > 1
            ? try openBeneath(made.dropLast(), from: incoming, flags: O_PATH)
            : try openBeneath(path.dropLast(), from: tree, flags: O_PATH)
        return try LocalAttributes(in: parent.raw)
    }
}
