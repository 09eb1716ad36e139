import Control
import Foundation
import Model

/// All contents that the documents of a directory, alive and deleted, have as a version: what a
/// user could get back.
package func reachableContents(in directory: String) throws -> [Data] {
    try reachableVersions(in: directory).map(\.bytes)
}

/// The same with the last name of the document that has each content.
package func reachableVersions(in directory: String) throws -> [(name: String, bytes: Data)] {
    let place = try MountedPath(FilePath(directory))
    let client = try ControlClient(socket: place.socket)
    var contents: [(name: String, bytes: Data)] = []
    for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
        let hidden = "\(directory)/.versions/\(name)"
        for version in (try? FileManager.default.contentsOfDirectory(atPath: hidden)) ?? [] {
            contents.append((name, try Data(contentsOf: URL(filePath: "\(hidden)/\(version)"))))
        }
    }
    var request = Request(.versions, path: place.components)
    request.deleted = true
    for document in try client.ask(request, as: DeletedReport.self).documents {
        var request = Request(.versions)
        request.document = document.id
        for version in try client.ask(request, as: HistoryReport.self).versions {
            var piece = Request(.extract)
            piece.document = document.id
            piece.number = version.number
            let report = try client.ask(piece, as: PieceReport.self)
            let name = String(decoding: document.name.bytes, as: UTF8.self)
            contents.append((name, Data(base64Encoded: report.data) ?? Data()))
        }
    }
    return contents
}
