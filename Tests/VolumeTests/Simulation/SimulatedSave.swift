import Glibc
import Model

@testable import Volume

/// One program's work on some names: its steps, between which others work, and what it means for
/// the documents once it has ended.
struct SimulatedSave {
    /// The names that nothing else may use meanwhile.
    let paths: [String]
    let label: String
    var steps: [(ProgramTree) throws -> Void]
    let outcome: (inout DocumentModel) -> Void
}

/// The ways in which programs save, from simple to odd. Each is written down together with what it
/// means for the documents.
extension SimulatedSave {
    typealias Step = (ProgramTree) throws -> Void

    /// A file that stays open between steps.
    private final class Holder {
        var handle: ProgramTree.Handle?

        func close(in tree: ProgramTree) {
            if let handle { tree.close(handle) }
            handle = nil
        }

        /// The daemon was killed, so the file is not closed in the tree.
        deinit {
            guard let handle else { return }
            Glibc.close(handle.descriptor)
            Glibc.close(handle.path)
        }
    }

    static func writing(
        _ path: String, _ content: [UInt8], _ flags: Int32, at offset: Int64? = nil,
        _ program: Program
    ) -> [Step] {
        let holder = Holder()
        let half = content.count / 2
        return [
            { holder.handle = try $0.open(path, flags, by: program) },
            { try $0.write(holder.handle!, Array(content[..<half]), at: offset) },
            {
                try $0.write(
                    holder.handle!, Array(content[half...]), at: offset.map { $0 + Int64(half) })
            },
            { holder.close(in: $0) },
        ]
    }

    static func overwriting(_ path: String, _ content: [UInt8], _ program: Program) -> Self {
        SimulatedSave(
            paths: [path], label: "overwrite \(path)",
            steps: writing(path, content, O_WRONLY | O_CREAT | O_TRUNC, program)
        ) { $0.save(path, content) }
    }

    static func editing(
        _ path: String, _ old: [UInt8], _ content: [UInt8], at offset: Int, _ program: Program
    ) -> Self {
        var new = Array(old.prefix(offset)) + content
        if new.count < old.count { new += old[new.count...] }
        return SimulatedSave(
            paths: [path], label: "edit \(path)",
            steps: writing(path, content, O_RDWR, at: Int64(offset), program)
        ) { $0.save(path, new) }
    }

    static func appending(
        _ path: String, _ old: [UInt8], _ content: [UInt8], _ program: Program
    ) -> Self {
        SimulatedSave(
            paths: [path], label: "append \(path)",
            steps: writing(path, content, O_WRONLY | O_APPEND, program)
        ) { $0.save(path, old + content) }
    }

    /// A new file replaces the document's. `temporary` may be a name that is a document's until it
    /// is renamed, or one that the ignore file names.
    static func replacing(
        _ path: String, by temporary: String, _ content: [UInt8], _ program: Program
    ) -> Self {
        SimulatedSave(
            paths: [path, temporary], label: "replace \(path) by \(temporary)",
            steps: writing(temporary, content, O_WRONLY | O_CREAT | O_EXCL, program) + [
                { try $0.rename(temporary, path, by: program) }
            ]
        ) { $0.save(path, content) }
    }

    private final class Flag { var isSet = false }

    /// Moves the document aside and writes a new file with its name, as vim does, or prepares that
    /// file first. A prepared file that is a document with versions by then takes the name with its
    /// own history.
    static func withBackup(
        _ path: String, _ old: [UInt8], _ content: [UInt8], draft: String, removes: Bool,
        prepares: Bool, _ program: Program
    ) -> Self {
        let backup = path + "~"
        let isDocument = Flag()
        var steps: [Step] = []
        if prepares { steps += writing(draft, content, O_WRONLY | O_CREAT | O_EXCL, program) }
        steps.append { try $0.rename(path, backup, by: program) }
        if prepares {
            steps.append {
                isDocument.isSet = try $0.hasVersions(draft)
                try $0.rename(draft, path, by: program)
            }
        } else {
            steps += writing(path, content, O_WRONLY | O_CREAT | O_EXCL, program)
        }
        if removes { steps.append { try $0.unlink(backup, by: program) } }
        return SimulatedSave(
            paths: [path, backup, draft],
            label: "save \(path) with a backup"
                + (prepares ? ", prepared" : "") + (removes ? ", removed" : ""),
            steps: steps
        ) { model in
            if isDocument.isSet {
                model.move(path, backup)
                model.save(path, content)
                if removes { model.remove(backup) }
                return
            }
            model.save(backup, old)
            model.save(path, content)
            if removes { model.removeBackup(backup) }
        }
    }

    /// A link keeps the old contents, and a new file replaces the document's.
    static func withLinkedBackup(
        _ path: String, _ old: [UInt8], _ content: [UInt8], draft: String, hasBackup: Bool,
        _ program: Program
    ) -> Self {
        let backup = path + "~"
        var steps: [Step] = []
        if hasBackup { steps.append { try $0.unlink(backup, by: program) } }
        steps.append { try $0.link(path, backup, by: program) }
        steps += writing(draft, content, O_WRONLY | O_CREAT | O_EXCL, program)
        steps.append { try $0.rename(draft, path, by: program) }
        return SimulatedSave(
            paths: [path, backup, draft],
            label: "save \(path) with a linked backup", steps: steps
        ) { model in
            // The same program has removed the backup and makes it again, so it stays a document.
            model.save(backup, old)
            model.save(path, content)
        }
    }

    static func removingFirst(_ path: String, _ content: [UInt8], _ program: Program) -> Self {
        SimulatedSave(
            paths: [path], label: "remove and write \(path)",
            steps: [{ try $0.unlink(path, by: program) }]
                + writing(path, content, O_WRONLY | O_CREAT | O_EXCL, program)
        ) { $0.save(path, content) }
    }

    static func exchanging(
        _ path: String, _ content: [UInt8], draft: String, _ program: Program
    ) -> Self {
        SimulatedSave(
            paths: [path, draft], label: "exchange \(path) with a draft",
            steps: writing(draft, content, O_WRONLY | O_CREAT | O_EXCL, program) + [
                { try $0.exchange(draft, path, by: program) },
                { try $0.unlink(draft, by: program) },
            ]
        ) { $0.save(path, content) }
    }

    static func exchanging(_ path: String, _ other: String, _ program: Program) -> Self {
        SimulatedSave(
            paths: [path, other], label: "exchange \(path) and \(other)",
            steps: [{ try $0.exchange(path, other, by: program) }]
        ) { $0.exchange(path, other) }
    }

    static func moving(_ path: String, _ other: String, _ program: Program) -> Self {
        SimulatedSave(
            paths: [path, other], label: "move \(path) to \(other)",
            steps: [{ try $0.rename(path, other, by: program) }]
        ) { $0.move(path, other) }
    }

    /// A document gets a name that the ignore file names, and another program removes that.
    static func hiding(
        _ path: String, as hidden: String, _ program: Program, _ other: Program
    ) -> Self {
        SimulatedSave(
            paths: [path, hidden], label: "hide \(path) and remove it",
            steps: [
                { try $0.rename(path, hidden, by: program) },
                { try $0.unlink(hidden, by: other) },
            ]
        ) { $0.remove(path) }
    }

    static func removing(_ path: String, _ program: Program) -> Self {
        SimulatedSave(
            paths: [path], label: "remove \(path)",
            steps: [{ try $0.unlink(path, by: program) }]
        ) { $0.remove(path) }
    }

    /// Another program makes a document with the name of one that was removed: a new document.
    static func removingForAnother(
        _ path: String, _ content: [UInt8], _ program: Program, _ other: Program
    ) -> Self {
        SimulatedSave(
            paths: [path], label: "remove \(path), and another makes it",
            steps: [{ try $0.unlink(path, by: program) }]
                + writing(path, content, O_WRONLY | O_CREAT | O_EXCL, other)
        ) {
            $0.remove(path)
            $0.save(path, content)
        }
    }

    /// A program has the document open while another replaces it, and writes to it afterwards.
    static func late(
        _ path: String, _ old: [UInt8], _ late: [UInt8], _ content: [UInt8], draft: String,
        _ program: Program, _ other: Program
    ) -> Self {
        let holder = Holder()
        var steps: [Step] = [{ holder.handle = try $0.open(path, O_RDWR, by: program) }]
        steps += writing(draft, content, O_WRONLY | O_CREAT | O_EXCL, other)
        steps.append { try $0.rename(draft, path, by: other) }
        steps.append { try $0.write(holder.handle!, late, at: 0) }
        steps.append { holder.close(in: $0) }
        var saved = late
        if saved.count < old.count { saved += old[saved.count...] }
        return SimulatedSave(
            paths: [path, draft], label: "save \(path) late", steps: steps
        ) {
            $0.save(path, content)
            $0.saveLate(path, saved)
        }
    }

    /// The file gets a second name, is edited under the first, and loses that.
    static func linking(
        _ path: String, _ other: String, _ content: [UInt8], _ program: Program
    ) -> Self {
        SimulatedSave(
            paths: [path, other], label: "link \(path) to \(other) and edit it",
            steps: [{ try $0.link(path, other, by: program) }]
                + writing(path, content, O_WRONLY | O_TRUNC, program)
                + [{ try $0.unlink(path, by: program) }]
        ) { model in
            model.link(path, other)
            model.save(path, content)
            model.save(other, content)
            model.remove(path)
        }
    }

    /// A program that could write opens the document, and closes it without having written.
    static func opening(_ path: String, _ program: Program) -> Self {
        let holder = Holder()
        return SimulatedSave(
            paths: [path], label: "open \(path)",
            steps: [
                { holder.handle = try $0.open(path, O_RDWR, by: program) },
                { holder.close(in: $0) },
            ]
        ) { _ in }
    }

    static func movingDirectory(_ path: String, _ other: String, _ program: Program) -> Self {
        SimulatedSave(
            paths: [path + "/", other + "/"], label: "move directory \(path) to \(other)",
            steps: [{ try $0.rename(path, other, by: program) }]
        ) { $0.moveDirectory(path, other) }
    }
}
