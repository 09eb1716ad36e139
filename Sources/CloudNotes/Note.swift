import FileCoordination
import Foundation

/// A text in a file or, with attachments, in a package with them and `text.txt`.
final class Note: Document {
    private(set) var text = ""
    private(set) var attachments: [String: FileWrapper] = [:]
    /// Called when the note must be drawn again.
    var changed: () -> Void = {}

    override func load(fromContents contents: any Sendable, ofType type: String) throws {
        attachments = (contents as? FileWrapper)?.fileWrappers ?? [:]
        let words = attachments.removeValue(forKey: "text.txt")?.regularFileContents
        text = String(decoding: words ?? contents as? Data ?? Data(), as: UTF8.self)
        changed()
    }

    override func contents(forType type: String) throws -> any Sendable {
        if type != "notepkg" { return Data(text.utf8) }
        let package = FileWrapper(directoryWithFileWrappers: attachments)
        package.addRegularFile(withContents: Data(text.utf8), preferredFilename: "text.txt")
        return package
    }

    /// A text that gets an attachment becomes a package.
    override var savingFileType: String { attachments.isEmpty ? fileType : "notepkg" }

    func edit(_ new: String) {
        undoManager.registerUndo(withTarget: self) { [text] in $0.edit(text) }
        text = new
        changed()
    }

    func attach(_ file: FileWrapper) {
        let all = FileWrapper(directoryWithFileWrappers: attachments)
        all.addFileWrapper(file)
        attachments = all.fileWrappers ?? [:]
        updateChangeCount(.done)
    }

    private(set) var trouble = ""

    override func handleError(_ error: any Error, userInteractionPermitted: Bool) {
        trouble = error.localizedDescription
    }

    override func updateChangeCount(withToken token: ChangeCountToken, for operation: SaveOperation)
    {
        super.updateChangeCount(withToken: token, for: operation)
        changed()
    }
}
