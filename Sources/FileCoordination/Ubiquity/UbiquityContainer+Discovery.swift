import Control
import Dispatch
import Foundation
import Synchronization

extension UbiquityContainer {
    /// The variable of the environment that names the default volume, by any path on it.
    public static let environmentVariable = "CONCORD_VOLUME"

    /// The volumes that are mounted and answer, the oldest mount first. It waits two seconds at
    /// most, so do not call it on the main thread.
    public static var mounted: [UbiquityContainer] {
        let mountPoints = Array(FilePath.mountPoints.reversed())
        let (found, answered) = (Found(), DispatchSemaphore(value: 0))
        var count = 0
        // The daemon of a volume may be stopped, and then nothing answers.
        for (index, mountPoint) in mountPoints.enumerated() {
            let thread = ThreadHandle("volumes") {
                if let name = mountPoint.attribute(MountedPath.attribute) {
                    let container = UbiquityContainer(
                        url: URL(mountPoint, isDirectory: true),
                        socket: String(decoding: name, as: UTF8.self))
                    found.containers.withLock { $0[index] = container }
                }
                answered.signal()
            }
            guard let thread else { continue }
            thread.detach()
            count += 1
        }
        let deadline = DispatchTime.now() + .seconds(2)
        for _ in 0..<count where answered.wait(timeout: deadline) == .timedOut { break }
        return found.containers.withLock { containers in
            containers.sorted { $0.key < $1.key }.map(\.value)
        }
    }

    private final class Found: Sendable { let containers = Mutex<[Int: UbiquityContainer]>([:]) }

    /// The volume for the documents of a program whose user has chosen no other: the one that
    /// ``environmentVariable`` names, otherwise the oldest of those that are ``mounted``; nil if
    /// there is none. Do not call it on the main thread.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when the named volume's daemon does not
    ///   answer; `.invalid` when the variable names something that is on no volume.
    public static var standard: UbiquityContainer? {
        get throws(FileCoordinationError) {
            try standard(ProcessInfo.processInfo.environment[environmentVariable])
        }
    }

    static func standard(_ path: String?) throws(FileCoordinationError) -> UbiquityContainer? {
        guard let path, !path.isEmpty else { return mounted.first }
        if let container = try UbiquityContainer(ofItemAt: URL(filePath: path)) {
            return container
        }
        throw FileCoordinationError(
            .invalid,
            "\(environmentVariable) is \(path), which is on no Concord volume: set it to a path "
                + "on a mounted volume, or unset it")
    }

    /// The directory of a program's own documents in the volume, which is created if it does not
    /// exist. People see it, so `name` is the program's name as they know it.
    ///
    /// - Throws: ``FileCoordinationError``: `.invalid` when the name is empty, begins with a dot or
    ///   contains a slash. `CocoaError` when the directory cannot be created.
    public func documentsDirectory(named name: String) throws -> URL {
        guard !name.isEmpty, name.first != ".", !name.contains("/"), !name.contains("\0") else {
            throw FileCoordinationError(
                .invalid, "\"\(name)\" is not a name for a directory of documents")
        }
        let directory = url.appending(path: name, directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        return directory
    }

    private init(url: URL, socket: String) { (self.url, self.socket) = (url, socket) }
}
