import Logging
import Model

// The face of the volume towards the programs. Stands in until the lead's own replaces it: everything refuses.

package struct Settings: Sendable {
    package var listConflicts = false
    package var mayCreate = true
    package init() {}
}

package struct VolumeStatus: Sendable {
    package var name = ""
    package var store = ""
    package var tree = ""
    package var scanning = false
    package var scanned = 0
    package var scanTotal = 0
    package var items = 0
    package var documents = 0
    package var versions = 0
    package var pendingEvents = 0
    package var waitingToBeCut = 0
    package var waitingBytes: Int64 = 0
    package var storeBytes: Int64 = 0
    package var treeBytes: Int64?
    package var problems: [String] = []
}

package struct DocumentStatus: Sendable {
    package var id: Identifier
    package var kind: String
    package var state: DocumentHistory.State
    package var durability: Version.Durability
    package var versions: Int
    package var size: UInt64
    package var currentVersion: Int?
}

package struct DeletedDocument: Sendable {
    package var id: Identifier
    package var name: Name
    package var deletedAt: Int64
    package var versions: Int
    package var size: UInt64
}

package struct Finding: Hashable, Sendable {
    package enum Severity: String, Sendable { case note, damage, repaired }
    package var severity: Severity
    package var subject: String
    package var message: String
}

extension Volume {
    private static var absent: VolumeError {
        VolumeError(.invalid, "this build has no volume in it yet")
    }

    package static func open(store: String, name: String?, settings: Settings, log: Logger)
        throws(VolumeError) -> Volume
    { throw absent }
    package func start() {}
    package func stop() {}
    package var identity: (volume: Identifier, device: Identifier, name: String, store: String) {
        (.random(), .random(), "", "")
    }
    package func status() -> VolumeStatus { VolumeStatus() }
    package func status(at path: [Name]) throws(VolumeError) -> DocumentStatus {
        throw Volume.absent
    }
    package func deletedDocuments(in path: [Name]) throws(VolumeError) -> [DeletedDocument] {
        throw Volume.absent
    }
    package func history(of id: Identifier) throws(VolumeError) -> DocumentHistory? { nil }
    package func setLabel(_ label: String?, version number: Int, at path: [Name])
        throws(VolumeError)
    { throw Volume.absent }
    package func forget(version number: Int, at path: [Name]) throws(VolumeError) {
        throw Volume.absent
    }
    package func wait(
        for durability: Version.Durability, at path: [Name], timeoutSeconds: Double
    ) throws(VolumeError) { throw Volume.absent }
    package var statistics: [String: Int] { [:] }
    package static func examine(
        store: String, repair: Bool, progress: (String, Double) -> Void
    ) throws(VolumeError) -> [Finding] { throw absent }
    package func examine(repair: Bool, progress: (String, Double) -> Void) -> [Finding] { [] }
}
