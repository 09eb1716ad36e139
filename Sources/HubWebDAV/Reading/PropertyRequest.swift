import HubProtocol

/// What a PROPFIND asks for.
enum PropertyRequest: Hashable, Sendable {
    /// The names only.
    case names
    /// What is usual, dead properties, and these.
    case all(including: [ElementName])
    case some([ElementName])

    private static let most = 200
    /// Of all names together, because the answer repeats them for each document.
    private static let mostBytes = 16 << 10

    /// - Throws: `.malformed`, `.tooLarge`.
    init(_ body: Element?) throws(Failure) {
        guard let body else {
            self = .all(including: [])
            return
        }
        guard body.name == .dav("propfind") else { throw PropertyRequest.malformed }
        let kinds = body.children.filter {
            [.dav("propname"), .dav("allprop"), .dav("prop")].contains($0.name)
        }
        guard kinds.count == 1 else { throw PropertyRequest.malformed }
        let included = body.child(.dav("include"))?.children.map(\.name) ?? []
        let named = kinds[0].children.map(\.name)
        let bytes = (named + included).reduce(0) { $0 + $1.space.utf8.count + $1.local.utf8.count }
        guard named.count <= PropertyRequest.most, included.count <= PropertyRequest.most,
            bytes <= PropertyRequest.mostBytes
        else {
            throw Failure(
                .tooLarge,
                "A request names at most \(PropertyRequest.most) properties, with names and "
                    + "namespaces of at most \(PropertyRequest.mostBytes) bytes together.")
        }
        switch kinds[0].name.local {
        case "propname": self = .names
        case "allprop": self = .all(including: included)
        default: self = .some(named)
        }
    }

    /// Whether the answer shows locks.
    var showsLocks: Bool {
        switch self {
        case .names: false
        case .all: true
        case .some(let names): names.contains(.dav("lockdiscovery"))
        }
    }

    private static let malformed = Failure(
        .malformed, "The body must be a DAV:propfind with one of propname, allprop and prop.")

    func wants(_ name: ElementName) -> Bool {
        switch self {
        case .names: false
        case .all(let included): included.contains(name)
        case .some(let names): names.contains(name)
        }
    }
}
