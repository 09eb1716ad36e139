import CFuse
import CLinux
import Glibc
import Model
import SystemCalls
import Volume

// What programs do in `.conflicts/NAME/`: removing a version settles it, and moving it onto NAME
// makes it the current one as well. All else there is EROFS.
extension Driver {
    /// `rm` of a version of a file, `rmdir` of a package's. `rm -r` begins with what is in the
    /// package: that goes with the version, and is there again if the version stays.
    func settle(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        request.answer { () throws(Errno) in
            let parent = try versions.find(parent)
            guard parent.side == .conflicts else { throw .readOnly }
            switch parent.place {
            case .version, .entry: return request.done()
            default: break
            }
            guard case .document(_, let document) = parent.place,
                let path = nodes.path(of: parent.directory)
            else { throw .readOnly }
            let name = Name(cString: name)
            let user = request.onlooker
            parking.park(
                request, on: .questions,
                { () throws(Errno) in
                    let (version, isLast) = try self.version(name, in: parent, for: user)
                    do throws(VolumeError) {
                        try self.volume.settle([version.id], at: path + [document])
                    } catch {
                        throw Errno(error)
                    }
                    if isLast { parent.setEmptied(true) }
                },
                answer: { request, _ in request.done() })
        }
    }

    /// `rm -r .conflicts/NAME` ends with that: it is gone when nothing is left in it.
    func settleDirectory(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        guard let node = try? versions.find(parent), case .directory = node.place,
            node.side == .conflicts
        else { return settle(request, in: parent, name) }
        let name = Name(cString: name)
        let user = request.onlooker
        parking.park(
            request, on: .questions,
            { () throws(Errno) in
                do throws(Errno) { _ = try self.document(name, in: node, for: user) } catch {
                    guard error == .notFound else { throw error }
                    let place = VersionNode.Place.document(node.directory.id, name)
                    self.versions.known(node.side, place)?.setEmptied(false)
                    return
                }
                throw Errno(ENOTEMPTY)
            },
            answer: { request, _ in request.done() })
    }

    /// And whether there is no other one.
    private func version(_ name: Name, in parent: VersionNode, for user: Onlooker) throws(Errno)
        -> (Version, Bool)
    {
        guard case .document(_, let document) = parent.place else { throw .notFound }
        let state = try self.document(document, in: parent, for: user)
        versions.update(parent, state)
        guard let history = state.facts?.history?.visible(to: user),
            let index = history.fileNames.firstIndex(of: name)
        else { throw .notFound }
        return (history.versions[index], history.versions.count == 1)
    }

    /// Onto its document only: from there to anywhere else is another file system to programs,
    /// which then copy and remove. So is what would have to be fetched, for the kernel holds the
    /// directory meanwhile, and a package, which is no one step.
    func renameVersion(
        _ request: Request, _ from: (parent: UInt64, name: UnsafePointer<CChar>),
        _ to: (parent: UInt64, name: UnsafePointer<CChar>), flags: UInt32
    ) {
        request.answer { () throws(Errno) in
            if VersionNodes.isVirtual(to.parent) { throw .readOnly }
            let parent = try versions.find(from.parent)
            guard parent.side == .conflicts, case .document(_, let document) = parent.place else {
                throw .readOnly
            }
            guard to.parent == parent.directory.id, Name(cString: to.name) == document,
                let path = nodes.path(of: parent.directory)
            else { throw Errno(EXDEV) }
            if flags & UInt32(RENAME_NOREPLACE) != 0 { throw .exists }
            guard flags == 0 else { throw .invalid }
            let (name, target) = (Name(cString: from.name), to.parent)
            let (actor, user) = (actor(request.caller), request.onlooker)
            parking.park(
                request, on: .disk,
                { () throws(Errno) -> ReadyReplacement? in
                    let (version, _) = try self.version(name, in: parent, for: user)
                    return try self.ready(version, path + [document], actor)
                },
                undo: { ready in ready.map { self.volume.discard($0.incoming) } },
                answer: { request, ready in
                    guard let ready else { return request.done() }
                    self.replaceInTurn(request, ready, target, path + [document])
                })
        }
    }

    private func ready(_ version: Version, _ path: [Name], _ actor: Actor) throws(Errno)
        -> ReadyReplacement?
    {
        do throws(VolumeError) {
            let content = try volume.content(of: version.id, locally: true)
            if content.manifest.isPackage { throw VolumeError(.offline, "") }
            let replacement = Replacement(
                content.manifest, sources: [version.id], settles: [version.id], by: actor)
            return try volume.prepare(replacement, at: path, locally: true)
        } catch {
            switch error.code {
            case .offline, .timeout: throw Errno(EXDEV)
            default: throw Errno(error)
            }
        }
    }
}
