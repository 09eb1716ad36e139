import Glibc
import Model
import SystemCalls
import Volume

/// Resolves conflicts by file operations in `.conflicts/NAME/`: removing a version resolves it, and
/// moving it onto NAME also makes it the current one. Everything else there fails with EROFS.
final class ConflictResolution: RequestGroup {
    let parts: RequestParts
    private let directories: VersionDirectories
    private let nodes: VersionNodes
    private let renames: RenameOperations

    init(_ parts: RequestParts, _ directories: VersionDirectories, renames: RenameOperations) {
        self.parts = parts
        self.directories = directories
        nodes = directories.nodes
        self.renames = renames
    }

    /// Handles `rm` of a file's version and `rmdir` of a package's version. `rm -r` first removes
    /// the entries in the package: these removals succeed without effect, because the entries go
    /// with the version.
    func unlink(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        request.answer { () throws(Errno) in
            let parent = try nodes.find(parent)
            guard parent.side == .conflicts else { throw .readOnly }
            switch parent.place {
            case .version, .entry: return request.done()
            default: break
            }
            guard case .document(_, let document) = parent.place,
                let path = tree.nodes.path(of: parent.directory)
            else { throw .readOnly }
            let name = Name(cString: name)
            let user = request.onlooker
            parking.park(
                request, on: .questions,
                { () throws(Errno) in
                    let (version, isLast) = try self.version(name, in: parent, for: user)
                    do throws(VolumeError) {
                        try self.volume.conflicts.settle([version.id], at: path + [document])
                    } catch {
                        throw Errno(error)
                    }
                    if isLast { parent.setEmptied(true) }
                },
                answer: { request, _ in request.done() })
        }
    }

    /// Handles the `rmdir` that ends `rm -r .conflicts/NAME`, which succeeds when no conflict
    /// version is left.
    func rmdir(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        guard let node = try? nodes.find(parent), case .directory = node.place,
            node.side == .conflicts
        else { return unlink(request, in: parent, name) }
        let name = Name(cString: name)
        let user = request.onlooker
        parking.park(
            request, on: .questions,
            { () throws(Errno) in
                do throws(Errno) {
                    _ = try self.directories.document(name, in: node, for: user)
                } catch {
                    guard error == .notFound else { throw error }
                    let place = VersionNode.Place.document(node.directory.id, name)
                    self.nodes.known(node.side, place)?.setEmptied(false)
                    return
                }
                throw Errno(ENOTEMPTY)
            },
            answer: { request, _ in request.done() })
    }

    /// The version with this name, and whether it is the only one.
    private func version(_ name: Name, in parent: VersionNode, for user: Requester) throws(Errno)
        -> (Version, Bool)
    {
        guard case .document(_, let document) = parent.place else { throw .notFound }
        let state = try self.directories.document(document, in: parent, for: user)
        nodes.update(parent, state)
        guard let history = state.facts?.history?.visible(to: user),
            let index = history.fileNames.firstIndex(of: name)
        else { throw .notFound }
        return (history.versions[index], history.versions.count == 1)
    }

    /// Handles a rename of a version. Only a rename onto its document is possible. Any other
    /// target, a version that would have to be fetched (the kernel holds the directory meanwhile),
    /// and a package (which is not one step) fail with EXDEV, as between file systems; programs
    /// then copy and remove.
    func rename(_ request: Request, _ rename: Rename) {
        request.answer { () throws(Errno) in
            if VersionNodes.isVirtual(rename.to.parent) { throw .readOnly }
            let parent = try nodes.find(rename.from.parent)
            guard parent.side == .conflicts, case .document(_, let document) = parent.place else {
                throw .readOnly
            }
            guard rename.to.parent == parent.directory.id, rename.to.name == document.bytes + [0],
                let path = tree.nodes.path(of: parent.directory)
            else { throw Errno(EXDEV) }
            if rename.flags & Flag.renameNoReplace != 0 { throw .exists }
            guard rename.flags == 0 else { throw .invalid }
            let place = path + [document]
            guard grantGate.concerns(request.caller) else {
                return replace(request, rename, parent, place)
            }
            grantGate.pass(request, [.init(names: place)]) {
                self.replace(request, rename, parent, place)
            }
        }
    }

    /// Puts a version in the place of its document.
    private func replace(
        _ request: Request, _ rename: Rename, _ parent: VersionNode, _ place: [Name]
    ) {
        let name = Name(bytes: Array(rename.from.name.dropLast()))
        let (actor, user) = (callers.actor(request.caller), request.onlooker)
        parking.park(
            request, on: .disk,
            { () throws(Errno) -> ReadyReplacement? in
                let (version, _) = try self.version(name, in: parent, for: user)
                return try self.ready(version, place, actor)
            },
            revert: { ready in ready.map { self.volume.arrivals.discard($0.incoming) } },
            answer: { request, ready in
                guard let ready else { return request.done() }
                self.renames.replace(request, ready, rename.to.parent, place)
            })
    }

    private func ready(_ version: Version, _ path: [Name], _ actor: Actor) throws(Errno)
        -> ReadyReplacement?
    {
        do throws(VolumeError) {
            let content = try volume.versions.content(of: version.id, locally: true)
            if content.manifest.isPackage { throw VolumeError(.offline, "") }
            let replacement = Replacement(
                content.manifest, sources: [version.id], settles: [version.id], by: actor)
            return try volume.replacer.prepare(replacement, at: path, locally: true)
        } catch {
            switch error.code {
            case .offline, .timeout: throw Errno(EXDEV)
            default: throw Errno(error)
            }
        }
    }
}
