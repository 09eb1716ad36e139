import Coordination
import Model

/// The machine, with short texts for its inputs and outputs: `R /a` reads, `R- /a` reads without
/// changes, `M /a + Z /b` is a combined claim. A name that ends in `pkg` is a package.
struct Stage {
    private(set) var machine = Coordination()
    /// The letters of Rules.md.
    static let letters = ["R", "U", "G", "K", "M", "X", "Z"]

    mutating func step(_ event: Event) -> [String] { machine.step(event).map(words) }

    // MARK: What goes in

    static func path(_ text: String) -> Path {
        Path(text.split(separator: "/").map { .init(Name($0), isPackage: $0.hasSuffix("pkg")) })
    }

    static func access(_ letter: String) -> Access {
        switch letter {
        case "R": .read([])
        case "R-": .read(.withoutChanges)
        case "R:link": .read(.resolvesSymbolicLink)
        case "R:metadata": .read(.immediatelyAvailableMetadataOnly)
        case "R:upload": .read(.forUploading)
        case "U": .write(.update)
        case "G": .write(.merging)
        case "K": .write(.contentIndependentMetadataOnly)
        case "M": .write(.moving)
        case "X": .write(.deleting)
        case "Z": .write(.replacing)
        default: preconditionFailure("no such letter: \(letter)")
        }
    }

    static func targets(_ text: String) -> [Request.Target] {
        text.split(separator: "+").map { part in
            let words = part.split(separator: " ")
            return .init(access(String(words[0])), path(String(words[1])))
        }
    }

    /// - Parameter presenter: The presenter for which the request is made.
    mutating func ask(
        _ id: UInt64, _ wants: String, of presenter: UInt64? = nil, for purposes: [String] = [],
        manner: Request.Manner = .coordinated, clientSession: UInt64 = 1, isTry: Bool = false
    ) -> [String] {
        let own = presenter.map { [Purpose("presenter \($0)")] } ?? []
        let request = Request(
            Self.targets(wants), manner: manner,
            purposes: Set(purposes.map { Purpose($0) } + own),
            presenters: Set(presenter.map { [PresenterID($0)] } ?? []),
            clientSession: ClientSession(clientSession),
            isTry: isTry)
        return step(.requested(ClaimID(id), request))
    }

    mutating func present(
        _ id: UInt64, _ place: String, isDirectory: Bool = false,
        hears: Presenter.Capabilities = .all, clientSession: UInt64 = 2
    ) {
        let presenter = Presenter(
            Self.path(place), isDirectory: isDirectory, hears: hears,
            clientSession: ClientSession(clientSession))
        let effects = machine.step(.presented(PresenterID(id), presenter))
        precondition(effects.isEmpty)
    }

    mutating func answer(_ presenter: UInt64, _ id: UInt64, failure: String? = nil) -> [String] {
        step(.answered(PresenterID(presenter), ClaimID(id), failure: failure))
    }

    mutating func release(_ id: UInt64) -> [String] { step(.released(ClaimID(id))) }
    mutating func cancel(_ id: UInt64) -> [String] { step(.cancelled(ClaimID(id))) }
    mutating func overdue(_ id: UInt64) -> [String] { step(.overdue(ClaimID(id))) }
    mutating func retire(_ id: UInt64) -> [String] { step(.retired(PresenterID(id))) }
    mutating func end(clientSession: UInt64) -> [String] {
        step(.ended(ClientSession(clientSession)))
    }

    mutating func move(_ from: String, _ to: String, by: Set<UInt64> = []) -> [String] {
        step(
            .moved(from: Self.path(from), to: Self.path(to), by: Set(by.map { PresenterID($0) })))
    }

    /// Requests, and answers every question until the request is granted. Returns all outputs.
    mutating func askAndAnswer(
        _ id: UInt64, _ wants: String, of presenter: UInt64? = nil,
        manner: Request.Manner = .coordinated
    ) -> [String] {
        var all = ask(id, wants, of: presenter, manner: manner)
        var next = 0
        while next < all.count {
            let words = all[next].split(separator: " ")
            next += 1
            guard words[0].hasPrefix("P"), words.count > 2, UInt64(words[2]) == id else { continue }
            all += answer(UInt64(words[0].dropFirst())!, id)
        }
        return all
    }

    // MARK: What comes out

    private func words(_ effect: Effect) -> String {
        switch effect {
        case .granted(let id, let paths):
            "granted \(id.number) \(paths.map(words).joined(separator: " "))"
        case .refused(let id, .busy): "refused \(id.number) busy"
        case .refused(let id, .cancelled): "refused \(id.number) cancelled"
        case .refused(let id, .failed(let why)): "refused \(id.number) failed: \(why)"
        case .told(let id, let message): "P\(id.number) \(words(message))"
        }
    }

    private func words(_ path: Path) -> String {
        "/" + path.names.map(\.text).joined(separator: "/")
    }

    private func words(_ message: Message) -> String {
        switch message {
        case .relinquishToReader(let id): "reader \(id.number)"
        case .relinquishToWriter(let id): "writer \(id.number)"
        case .save(let id): "save \(id.number)"
        case .accommodateDeletion(let id): "accommodate \(id.number)"
        case .accommodateSubitemDeletion(let id, let path):
            "accommodateSubitem \(id.number) \(words(path))"
        case .reacquire(let id): "reacquire \(id.number)"
        case .changed: "changed"
        case .moved(let path): "moved \(words(path))"
        case .subitemAppeared(let path): "subitemAppeared \(words(path))"
        case .subitemChanged(let path): "subitemChanged \(words(path))"
        case .subitemMoved(let from, let to): "subitemMoved \(words(from)) \(words(to))"
        case .version(let change, let id): "version \(change) \(id)"
        case .subitemVersion(let path, let change, let id):
            "subitemVersion \(words(path)) \(change) \(id)"
        }
    }
}

/// A table in the format of Rules.md: a line of headings, then lines that begin with a heading.
struct Table: Sendable {
    let cells: [(row: String, column: String, value: String)]

    init(_ text: String) {
        let lines = text.split(separator: "\n").map { line in
            line.split(separator: "|").map { cell in
                cell.split(separator: " ").joined(separator: " ")
            }
        }
        cells = lines.dropFirst().flatMap { line in
            zip(lines[0].dropFirst(), line.dropFirst()).map { (line[0], $0, $1) }
        }
    }
}
