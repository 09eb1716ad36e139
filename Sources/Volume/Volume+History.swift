import Model

/// A document and its versions, oldest first.
package struct DocumentHistory: Sendable {
    package var id: Identifier
    package var isPackage: Bool
    /// current, writing (open for writing or saved and not yet recorded).
    package var state: State
    package var versions: [Version]
    /// The file name of each version in `.versions/NAME/`, in the same order.
    package var fileNames: [Name]

    package enum State: String, Sendable { case current, writing }
}

/// The content of a recorded version, to be read at random. Safe on any thread.
package struct VersionContent: Sendable {
    package let manifest: Manifest

    /// Reads of the entry with that path (empty for a file document); fewer bytes than asked for only at its end.
    package func read(_ entry: Int, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64)
        throws(VolumeError) -> Int
    { 0 }
}

extension Volume {
    /// The document at a path from the root; nil when there is none. Waits until the recorder has understood all that
    /// happened before the call, at most `timeoutSeconds` (then VolumeError.timeout).
    package func history(at path: [Name], timeoutSeconds: Double = 5) throws(VolumeError)
        -> DocumentHistory?
    { nil }

    package func content(of version: Identifier) throws(VolumeError) -> VersionContent {
        fatalError()
    }

    /// Whether that name is a package: by its extension (Limits), or by its attribute, which the caller has read.
    package static func isPackage(name: Name) -> Bool { false }
}
