import Control
import Foundation
import Glibc
import Model

/// Asks volumes about many items at once, so that what is the same for all items is asked only once
/// for each daemon.
final class ItemStatusReader {
    private struct Volume {
        let client: ControlClient
        let isUbiquitous: Bool
        /// Nil until the daemon was asked.
        var hub: HubReport??
    }

    /// A directory and what its volume has reported of all its entries.
    struct Directory {
        let path: FilePath
        /// Nil when it is on no volume.
        fileprivate let place: MountedPath?
        fileprivate let device: dev_t
        /// Nil when the volume could not answer; then it is asked about the entries one by one.
        fileprivate let entries: [Name: EntriesReport.Group]?
    }

    /// The volumes by their sockets.
    private var volumes: [String: Volume] = [:]

    /// Asks once for all entries of a directory.
    ///
    /// - Parameter parent: The directory that contains it, if that was asked about.
    func directory(_ path: FilePath, in parent: Directory? = nil) -> Directory {
        let device = (try? path.status())?.st_dev ?? 0
        // Finding a place takes many system calls.
        let place: MountedPath?
        if let parent, parent.device == device {
            place = parent.place?.appending(path.name)
        } else {
            place = (try? path.place()) ?? nil
        }
        let entries = place.flatMap { self.entries(of: $0) }
        return Directory(path: path, place: place, device: device, entries: entries)
    }

    private func entries(of place: MountedPath) -> [Name: EntriesReport.Group]? {
        var request = Request(.status, path: place.components)
        (request.local, request.entries) = (true, true)
        guard let volume = try? volume(place.socket),
            let report = try? volume.client.ask(request, as: EntriesReport.self)
        else { return nil }
        var found: [Name: EntriesReport.Group] = [:]
        for group in report.groups {
            var common = group
            common.names = []
            for name in group.names { found[Name(bytes: name.bytes)] = common }
        }
        return found
    }

    /// The kind and the values of an entry; nil when it is on no volume, or is local.
    ///
    /// - Parameter device: The device of the entry, which may be the root of another volume.
    func report(of name: Name, in directory: Directory, device: dev_t)
        throws(FileCoordinationError) -> (kind: String, values: UbiquityResourceValues)?
    {
        guard directory.device == device else {
            return try report(ofItemAt: directory.path.appending(name))
        }
        guard let place = directory.place else { return nil }
        guard let entries = directory.entries else {
            return try report(ofItemAt: place.appending(name))
        }
        return try entries[name].map { (entry) throws(FileCoordinationError) in
            try values(entry, place.socket) { place.appending(name) }
        }
    }

    /// The values of `UbiquityContainer.resourceValues`, and the kind of the item.
    func report(ofItemAt path: FilePath) throws(FileCoordinationError)
        -> (kind: String, values: UbiquityResourceValues)?
    {
        guard let place = try path.place() else { return nil }
        return try report(ofItemAt: place)
    }

    private func report(ofItemAt place: MountedPath) throws(FileCoordinationError)
        -> (kind: String, values: UbiquityResourceValues)?
    {
        var request = Request(.status, path: place.components)
        request.local = true
        let report: DocumentReport
        do throws(VolumeError) {
            report = try volume(place.socket).client.ask(request, as: DocumentReport.self)
        } catch {
            if error.code == .notFound { return nil }
            throw failed(error, place.socket)
        }
        let state = EntriesReport.Group(
            kind: report.kind, state: report.state, durability: report.durability,
            conflicts: (report.conflicts ?? 0) > 0)
        return try values(state, place.socket) { place }
    }

    private func values(
        _ state: EntriesReport.Group, _ socket: String, at place: () -> MountedPath
    ) throws(FileCoordinationError) -> (kind: String, values: UbiquityResourceValues) {
        do throws(VolumeError) {
            var volume = try volume(socket)
            var values = UbiquityResourceValues(state, isUbiquitous: volume.isUbiquitous)
            if values.isUbiquitous, !values.isUploaded || values.downloadingStatus != .current {
                if volume.hub == nil {
                    volume.hub = try volume.client.ask(
                        Request(.status), as: VolumeReport.self
                    ).hub
                    volumes[socket] = volume
                }
                if let hub = volume.hub ?? nil {
                    values.take(hub, path: RawText(path: place().components).text)
                }
            }
            if values.downloadingStatus != .current {
                values.take(UbiquityContainer.downloads.withLock { $0 }, place().path)
            }
            return (state.kind, values)
        } catch {
            throw failed(error, socket)
        }
    }

    /// The next request opens another connection.
    private func failed(_ error: VolumeError, _ socket: String) -> FileCoordinationError {
        volumes[socket] = nil
        return FileCoordinationError(error)
    }

    private func volume(_ socket: String) throws(VolumeError) -> Volume {
        if let known = volumes[socket] { return known }
        let client = try ControlClient(socket: socket)
        let token = try client.ask(Request(.identity), as: IdentityReport.self).token
        let volume = Volume(client: client, isUbiquitous: token != nil)
        volumes[socket] = volume
        return volume
    }
}
