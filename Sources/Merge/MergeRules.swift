import Model

/// Which documents are merged, and how: `.concordattributes` at the volume's root, which syncs like
/// any document, so that every device decides the same.
///
/// Lines are gitattributes' (`man gitattributes`): a pattern of gitignore's kind, quoted as C does
/// it where it holds spaces, then `merge=DRIVER` and `automerge=on|off|ask`; a later line wins,
/// word by word. The file never names a command: a driver that is not built in is looked up in a
/// file of this machine (``MergeTools``).
package struct MergeRules: Sendable {
    package static let fileName = ".concordattributes"
    /// Bytes: of a longer file nothing holds.
    package static let sizeMax = 1 << 20

    package enum Automerge: String, Sendable {
        case on
        case off
        /// Both versions stay until a person says so.
        case ask
    }

    /// What becomes of contents that a program overwrote which had seen older ones only.
    package enum Stale: String, Sendable {
        /// They are a conflict version until a person says what is to be.
        case conflict
        /// They are merged as any conflict is.
        case merge
        /// They are in the history, as what was seen before it was overwritten.
        case history
    }

    /// A line that does not hold, or not all of it.
    package struct Problem: Hashable, Sendable, CustomStringConvertible {
        /// From 1.
        package let line: Int
        package let message: String

        package var description: String { "\(fileName) line \(line): \(message)" }
    }

    /// What holds for a document; the lines are those that said so, nil for what holds by itself.
    package struct Choice: Hashable, Sendable {
        package var driver: MergeDriver
        package var driverLine: Int?
        package var automerge = Automerge.on
        package var automergeLine: Int?
        package var stale = Stale.conflict
    }

    struct Line: Sendable {
        var number: Int
        var pattern: NamePattern
        var settings: [Setting]
    }

    enum Setting: Hashable, Sendable {
        /// Nil: as if no line had said anything.
        case driver(MergeDriver?)
        case automerge(Automerge?)
        case stale(Stale?)
    }

    var lines: [Line] = []
    package internal(set) var problems: [Problem] = []

    /// No file: what holds by itself.
    package init() {}

    /// - Parameter path: from the volume's root; of a file in a package, on into the package.
    package func choice(for path: [Name]) -> Choice {
        var choice = Choice(driver: .text)
        if let last = path.last, isJSON(last) { choice.driver = .json }
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
                }
            }
        }
        return choice
    }

    private func isJSON(_ name: Name) -> Bool {
        name.fileExtension.map { $0 | 0x20 } == Array("json".utf8)
    }
}
