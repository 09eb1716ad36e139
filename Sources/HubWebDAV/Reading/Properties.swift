import Hub
import Model
import Reconcile

/// What is told of one thing in the answer to a PROPFIND.
struct Properties: Sendable {
    let address: Address
    let isCollection: Bool
    /// The name that people see.
    var name: String
    var size: UInt64?
    var tag: String?
    var modified: Int64?
    var media: String?
    /// The bytes that the volume's owner may still store, and stores; nil if there is no quota.
    var quota: (available: UInt64, used: UInt64)?
    /// The locks that cover this; nil if it cannot be locked.
    var locks: ShownLocks?
    /// Has the properties that clients have set; nil if they can set none.
    private var item: ItemState?

    init(top address: Address) {
        self.address = address
        isCollection = true
        name = "Volumes"
    }

    init(_ item: ItemState, at address: Address) {
        self.address = address
        isCollection = item.isCollection
        self.item = item
        name = address.name
        modified = item.modified
        guard item.kind == .file else { return }
        size = item.current?.size ?? 0
        tag = item.tag
        media = FileType(name: name).media
    }

    init(_ entry: Manifest.Entry, of package: ItemState, at address: Address) {
        self.address = address
        isCollection = entry.kind == .directory
        name = address.name
        modified = entry.modified
        guard entry.kind == .file else { return }
        size = entry.size
        tag = package.tag
        media = FileType(name: name).media
    }

    // MARK: The answer

    /// The element `response` for this thing.
    func response(to request: PropertyRequest) -> String {
        let dead = item.map { DeadProperties.all(of: $0, for: request) } ?? [:]
        var (found, missing) = ([String](), [String]())
        switch request {
        case .names:
            found = Properties.usual.compactMap { name in
                value(of: name).map { _ in "<D:\(name)/>" }
            }
            found += dead.keys.map(\.element)
        case .all(let included):
            let names = Properties.usual.map { ElementName.dav($0) }
            let others = included.filter { !names.contains($0) }
            var ignored: [String] = []
            for name in names + others + dead.keys { add(name, dead, &found, &ignored) }
        case .some(let names):
            for name in names { add(name, dead, &found, &missing) }
        }
        var text = "<D:response><D:href>\(Markup.escaped(href))</D:href>"
        if !found.isEmpty || missing.isEmpty { text += Properties.status(200, found) }
        if !missing.isEmpty { text += Properties.status(404, missing) }
        return text + "</D:response>\n"
    }

    var href: String { address.path(isCollection: isCollection) }

    static func status(_ code: Int, _ properties: [String], _ more: String = "") -> String {
        let phrases = [
            200: "OK", 403: "Forbidden", 404: "Not Found", 409: "Conflict",
            424: "Failed Dependency", 507: "Insufficient Storage",
        ]
        return "<D:propstat><D:prop>\(properties.joined())</D:prop>"
            + "<D:status>HTTP/1.1 \(code) \(phrases[code] ?? "")</D:status>\(more)</D:propstat>"
    }

    private func add(
        _ name: ElementName, _ dead: [ElementName: String], _ found: inout [String],
        _ missing: inout [String]
    ) {
        if let element = dead[name] {
            found.append(element)
        } else if name.space == "DAV:", let value = value(of: name.local) {
            let end = value.isEmpty ? "/>" : ">\(value)</D:\(name.local)>"
            found.append("<D:\(name.local)" + end)
        } else {
            missing.append(name.element)
        }
    }

    // MARK: Live properties

    /// What `allprop` names. RFC 4331 says that the quota is not a part of that.
    private static let usual = [
        "resourcetype", "displayname", "getcontentlength", "getcontenttype", "getetag",
        "getlastmodified", "supportedlock", "lockdiscovery",
    ]

    /// The value of a property of the namespace `DAV:` as XML; nil if the thing has none.
    private func value(of name: String) -> String? {
        switch name {
        case "resourcetype": isCollection ? "<D:collection/>" : ""
        case "displayname": Markup.escaped(self.name)
        case "getcontentlength": size.map { String($0) }
        case "getcontenttype": media.map(Markup.escaped)
        case "getetag": tag.map(Markup.escaped)
        case "getlastmodified": modified.map(HTTPDate.text)
        case "supportedlock": locks.map { _ in ShownLocks.supported }
        case "lockdiscovery": locks?.element
        case "quota-available-bytes": quota.map { String($0.available) }
        case "quota-used-bytes": quota.map { String($0.used) }
        default: nil
        }
    }
}
