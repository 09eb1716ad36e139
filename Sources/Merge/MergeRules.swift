import Model

/// The rules that say which documents are merged, and how, and for which programs wait while
/// another device edits them. They are in `.concordattributes` at the
/// volume's root. That file is synchronized like any document, so that every device decides the
/// same.
///
/// The lines are those of gitattributes (`man gitattributes`): a pattern with gitignore's syntax,
/// which is quoted as in C if it contains spaces, then `merge=DRIVER`, `automerge=on|off|ask`,
/// `stale=conflict|merge|history` and `lock=notice|ask|hard`. A later line wins, setting by
/// setting. The file never contains a command: a driver that is not built in is defined in a file
/// of this machine (``MergeTools``).
package struct MergeRules: Sendable {
    package static let fileName = SettingsFile.rules.rawValue
    /// The largest file in bytes. A larger one is ignored.
    package static let sizeMax = 1 << 20

    package enum Automerge: String, Sendable {
        case on
        case off
        /// Both versions stay until a user asks for the merge.
        case ask
    }

    /// What happens to contents that a program overwrote although it had only seen older ones.
    package enum Stale: String, Sendable {
        /// They become a conflict version and wait for a user.
        case conflict
        /// They become a conflict version that is merged like any other.
        case merge
        /// They become history, as if the program had seen them.
        case history
    }

    /// What opening a document for writing means while another device edits it.
    package enum Lock: String, Sendable {
        /// Everybody sees who edits it, and nobody waits.
        case notice
        /// The open waits for a moment, and the other device is asked to let go.
        case ask
        /// Only one device may edit it: the open fails on the others.
        case hard
    }

    /// A line that is ignored, completely or partly.
    package struct Problem: Hashable, Sendable, CustomStringConvertible {
        /// The line number, from 1.
        package let line: Int
        package let message: String

        package var description: String { "\(fileName) line \(line): \(message)" }
    }

    /// The settings for a document. The lines are those that the settings come from; nil for a
    /// default.
    package struct Choice: Hashable, Sendable {
        package var driver: MergeDriver
        package var driverLine: Int?
        package var automerge = Automerge.on
        package var automergeLine: Int?
        package var stale = Stale.conflict
        package var lock = Lock.notice
    }

    struct Line: Sendable {
        var number: Int
        var pattern: NamePattern
        var settings: [Setting]
    }

    enum Setting: Hashable, Sendable {
        /// Nil restores the default.
        case driver(MergeDriver?)
        case automerge(Automerge?)
        case stale(Stale?)
        case lock(Lock?)
    }

    var lines: [Line] = []
    package internal(set) var problems: [Problem] = []

    /// The rules without a file: only the defaults.
    package init() {}

    /// - Parameter path: The path from the volume's root. For a file in a package it includes the
    ///   path in the package.
    package func choice(for path: [Name]) -> Choice {
        var choice = Choice(driver: .text)
        switch path.last.flatMap(lowercasedExtension) {
        case "json": choice.driver = .json
        case "csv", "tsv": choice.driver = .list
        default: break
        }
        let usual = choice
        for line in lines where line.pattern.matches(path: path) {
            for setting in line.settings {
                switch setting {
                case .driver(let driver):
                    choice.driver = driver ?? usual.driver
                    choice.driverLine = driver.map { _ in line.number }
                case .automerge(let automerge):
                    choice.automerge = automerge ?? usual.automerge
                    choice.automergeLine = automerge.map { _ in line.number }
                case .stale(let stale): choice.stale = stale ?? usual.stale
                case .lock(let lock): choice.lock = lock ?? usual.lock
                }
            }
        }
        // Whoever wants one editor at a time does not want that what was fenced off is merged.
        if choice.lock == .hard, choice.automergeLine == nil { choice.automerge = .ask }
        return choice
    }

    /// The first line that says so about any document; nil if there is none.
    package func line(setting lock: Lock) -> Int? {
        lines.first { $0.settings.contains(.lock(lock)) }?.number
    }

    /// Whether programs wait to write the document with this path.
    package func makesWait(at path: [Name]) -> Bool { choice(for: path).lock != .notice }

    private func lowercasedExtension(_ name: Name) -> String? {
        String(decoding: name.fileExtension, as: UTF8.self).lowercased()
    }
}
