import Journal
import Model

/// The comparison of the tree with the journal.
package struct TreeScan: Sendable {
    let recorder: Recorder

    /// Whether the tree or a part of it is being compared with the journal.
    package var isRunning: Bool { recorder.reports.report.isScanning }

    /// The number of documents that are missing from the tree and not treated as deleted.
    package var missingDocuments: Int { recorder.reports.report.missing }

    /// Treats these as deleted from now on, because a person says so.
    package func acceptMissing() throws(VolumeError) {
        try recorder.carryOut { (recorder) throws(VolumeError) in recorder.scanner.missing.accept()
        }
    }

    /// Compares a path with the journal again soon, because the journal differs from the tree
    /// there.
    package func recheck(_ path: [Name]) {
        recorder.signal.change {
            recorder.tasks.append { recorder in
                try? recorder.writer.transact { t in try recorder.recheck(path, t) }
            }
        }
    }
}
