import Control
import Foundation
import Glibc

/// A copy of an item, for ``FileCoordinator/ReadingOptions/forUploading``.
struct Snapshot: Sendable {
    let url: URL
    private let directory: FilePath

    /// Copies a file under its name, or stores a directory in a zip file.
    init(of item: URL) throws(FileCoordinationError) {
        let path = FilePath(item)
        directory = try Snapshot.makeDirectory()
        do throws(CopyFailure) {
            let status = try CopyFailure.status(path, following: true)
            if status.st_mode & S_IFMT == S_IFDIR {
                let archive = directory.appending(path.name.text + ".zip")
                try ZipWriter.archive(path, to: archive)
                url = URL(archive)
            } else {
                let copy = directory.appending(path.name)
                try Snapshot.copy(path, to: copy)
                url = URL(copy)
            }
        } catch {
            Snapshot.remove(directory)
            throw FileCoordinationError(
                .unavailable, "no snapshot of \(path) can be made for uploading: \(error.message)")
        }
    }

    /// Removes the snapshot with everything in its directory.
    func remove() { Snapshot.remove(directory) }

    private static func remove(_ directory: FilePath) {
        try? FileManager.default.removeItem(at: URL(directory, isDirectory: true))
    }

    private static func makeDirectory() throws(FileCoordinationError) -> FilePath {
        if let made = FilePath.makeTemporaryDirectory(named: "concord-upload") { return made }
        let reason = String(cString: strerror(errno))
        throw FileCoordinationError(
            .unavailable,
            "no directory for a snapshot can be made in "
                + "\(FilePath(FileManager.default.temporaryDirectory)): \(reason)")
    }

    private static func copy(_ source: FilePath, to target: FilePath) throws(CopyFailure) {
        let input = try FileReader(source)
        let output = try FileWriter(target)
        while let piece = try input.next() { try output.write(piece) }
    }
}
