import ArgumentParser
import Control
import Glibc
import Model
import SystemCalls

/// A document on a mounted volume, found by its path, and the connection to the volume's daemon.
struct Document {
    let place: MountedPath
    let client: ControlClient
    /// The path as the user wrote it.
    let given: FilePath

    init(_ argument: String) throws(VolumeError) { try self.init(RawArgument.path(argument)) }

    init(_ path: FilePath) throws(VolumeError) {
        given = path
        place = try MountedPath(given)
        client = try ControlClient(socket: place.socket)
    }

    /// A document or directory that may have been deleted, also with the directories above it.
    init(deleted argument: String) throws(VolumeError) {
        given = RawArgument.path(argument)
        let nearest = try MountedPath.nearest(given)
        place = if let nearest { nearest } else { try MountedPath(given) }
        client = try ControlClient(socket: place.socket)
    }

    var path: FilePath { place.path }

    func ask<Value: Codable & Sendable>(
        _ verb: Verb, as type: Value.Type, _ fill: (inout Request) -> Void = { _ in }
    ) throws(VolumeError) -> Value {
        var request = Request(verb, path: place.components)
        fill(&request)
        return try client.ask(request, as: type, progress: Terminal.show)
    }

    /// Waits until the document is recorded.
    ///
    /// - Throws: `.timeout` after ten seconds.
    func waitUntilRecorded() throws(VolumeError) {
        _ = try ask(.wait, as: Nothing.self) {
            $0.durability = "disk"
            $0.timeoutSeconds = 10
        }
    }

    func history() throws(VolumeError) -> HistoryReport {
        try ask(.versions, as: HistoryReport.self)
    }

    func version(_ designator: VersionSpecifier) throws(VolumeError) -> VersionReport {
        try designator.find(in: history().versions, of: "\(given)")
    }

    /// The path below `.versions` where the mount shows the contents of `version`.
    func hiddenPath(of version: VersionReport) -> FilePath {
        path.parent.appending(".versions").appending(path.name)
            .appending(Name(bytes: version.fileName.bytes))
    }
}

extension VersionReport {
    /// `version 3, today 14:03`
    var title: String { "version \(number), \(TimeFormat.text(saved))" }
}
