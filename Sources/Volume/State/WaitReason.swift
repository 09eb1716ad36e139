/// Why changes of a document are not recorded yet.
enum WaitReason: String, Sendable {
    case isWritten = "a program has it open for writing, or changes it while it is read."
    case hasDatabaseLog = "its database log holds changes that are not in it."
    case isNotFound = "its file is not where it was last, and what became of it is not known yet."
    case lacksSpace = "there is no space for another version of it."
    case isReplaced = "what it replaced cannot be read now."
    case showsLastVersion = "its last version is put back first."
    case isPartlyRecorded = "a program still has an earlier content of it open for writing."
    case failed = "the last attempt failed."

    /// A sentence for people, when it begins with the document's path.
    var words: String { "has changes that are not recorded yet: \(rawValue)" }
}
