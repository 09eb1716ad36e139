import Control
import Foundation

/// Downloads missing contents of a document and publishes the progress. Reading alone would
/// download them without showing progress.
@MainActor struct DocumentDownload {
    private let document: Document

    init(_ document: Document) { self.document = document }

    func run(of url: URL) async throws {
        let place = try await document.file.perform { () -> MountedPath? in
            let path = FilePath(url)
            let state = path.attribute("user.concord.state").map {
                String(decoding: $0, as: UTF8.self)
            }
            return state == "dataless" || state == "downloading" ? try path.place() : nil
        }
        guard let place else { return }
        let progress = Foundation.Progress(totalUnitCount: 100)
        document.progress = progress
        document.set(.progressAvailable)
        defer {
            document.set(.progressAvailable, false)
            document.progress = nil
        }
        try await document.file.perform {
            // Errors are ignored here, because the following read reports them better.
            guard let client = try? ControlClient(socket: place.socket) else { return }
            let request = Request(.download, path: place.components)
            _ = try? client.ask(request, as: Nothing.self, timeoutSeconds: 3600) { step in
                progress.completedUnitCount = Int64(step.fraction * 100)
            }
        }
    }
}
