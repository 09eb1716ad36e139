import Control
import Foundation
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

    /// The volumes by their sockets.
    private var volumes: [String: Volume] = [:]
    /// The places of directories whose files were asked about. Finding a place takes more system
    /// calls than all the rest.
    private var places: [FilePath: MountedPath?] = [:]

    /// What a volume has reported of all entries of a directory, by the directory and their names.
    private var entries: [FilePath: [Name: EntriesReport.Group]] = [:]

    /// Asks once for all entries of a directory. If that fails, they are asked about one by one.
    func prepare(directory: FilePath) {
        guard let place = (try? directory.place()) ?? nil else { return }
        var request = Request(.status, path: place.components)
        (request.local, request.entries) = (true, true)
        guard let volume = try? volume(place.socket),
            let report = try? volume.client.ask(request, as: EntriesReport.self)
        else { return }
        volumes[place.socket] = volume
        var found: [Name: EntriesReport.Group] = [:]
        for group in report.groups {
            var common = group
            common.names = []
            for name in group.names { found[Name(bytes: name.bytes)] = common }
        }
        places[directory] = .some(place)
        entries[directory] = found
    }

    /// The values of `UbiquityContainer.resourceValues`, and the kind of the item.
    func report(ofItemAt path: FilePath, isDirectory: Bool = true) throws(FileCoordinationError)
        -> (kind: String, values: UbiquityResourceValues)?
    {
        // A directory whose parent has reported it, a package, is on that volume, too.
        let isKnown = !isDirectory || entries[path.parent]?[path.name] != nil
        let found = isKnown ? try place(ofFile: path) : try path.place()
        guard let place = found else { return nil }
        do throws(VolumeError) {
            var volume = try volume(place.socket)
            defer { volumes[place.socket] = volume }
            guard let report = try state(path, place, isDirectory: isDirectory, volume) else {
                return nil
            }
            var values = UbiquityResourceValues(report, isUbiquitous: volume.isUbiquitous)
            if values.isUbiquitous, !values.isUploaded || values.downloadingStatus != .current {
                if volume.hub == nil {
                    volume.hub = try volume.client.ask(
                        Request(.status), as: VolumeReport.self
                    ).hub
                }
                if let hub = volume.hub ?? nil {
                    values.take(hub, path: RawText(path: place.components).text)
                }
            }
            values.take(UbiquityContainer.downloads.withLock { $0 }, place.path)
            return (report.kind, values)
        } catch {
            if error.code == .notFound { return nil }
            volumes[place.socket] = nil
            throw FileCoordinationError(error)
        }
    }

    /// The state of an item, without asking the daemon if that has reported it with its directory;
    /// nil for a local file.
    private func state(
        _ path: FilePath, _ place: MountedPath, isDirectory: Bool, _ volume: Volume
    ) throws(VolumeError) -> EntriesReport.Group? {
        if let known = entries[path.parent] {
            if let entry = known[path.name] { return entry }
            // Only directories are left out.
            if !isDirectory { return nil }
        }
        var request = Request(.status, path: place.components)
        request.local = true
        let report = try volume.client.ask(request, as: DocumentReport.self)
        return EntriesReport.Group(
            kind: report.kind, state: report.state, durability: report.durability,
            conflicts: (report.conflicts ?? 0) > 0)
    }

    /// A file is on the volume of its directory. A directory may be the root of another volume.
    private func place(ofFile path: FilePath) throws(FileCoordinationError) -> MountedPath? {
        let parent = path.parent
        if places[parent] == nil { places[parent] = .some(try parent.place()) }
        return places[parent]??.appending(path.name)
    }

    private func volume(_ socket: String) throws(VolumeError) -> Volume {
        if let known = volumes[socket] { return known }
        let client = try ControlClient(socket: socket)
        let token = try client.ask(Request(.identity), as: IdentityReport.self).token
        return Volume(client: client, isUbiquitous: token != nil)
    }
}
