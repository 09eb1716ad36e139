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

    /// The values of `UbiquityContainer.resourceValues`, and the kind of the item.
    func report(ofItemAt path: FilePath, isDirectory: Bool = true) throws(FileCoordinationError)
        -> (kind: String, values: UbiquityResourceValues)?
    {
        let found = isDirectory ? try path.place() : try place(ofFile: path)
        guard let place = found else { return nil }
        do throws(VolumeError) {
            var volume = try volume(place.socket)
            defer { volumes[place.socket] = volume }
            var request = Request(.status, path: place.components)
            request.local = true
            let report = try volume.client.ask(request, as: DocumentReport.self)
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
