import HTTPTypes
import HubProtocol
import Model

/// The addresses of pages. They name volumes and items by their ids, never by their names, so an
/// address stays valid when a document is moved, and no name can have a meaning in it.
enum PagePath: Hashable {
    case start, volumes, signIn, signOut, devices
    case revoke(Identifier)
    case addPasskey
    case removePasskey(Identifier)
    case hub, storagePlot
    case account(Identifier, AccountForm)
    case asset(String)
    case item(volume: Identifier, item: Identifier, View)

    /// What an owner of the hub changes of an account.
    enum AccountForm: String { case quota, invite }

    /// What is shown of an item: the last component of the address.
    enum View: String, CaseIterable {
        /// This view has an address without a last component.
        case page = ""
        /// The contents as a download.
        case file
        /// The contents as the browser shows them by itself.
        case preview
        /// Two versions side by side.
        case compare
        /// The last changes of a volume, and an event for each new one.
        case activity, events
        /// The links for people without an account, with forms that make and revoke them.
        case links
        /// Forms that change the item.
        case restore, undelete, settle, rename, delete
        /// Forms that add something to a folder.
        case upload
        case makeFolder = "folder"
        /// Pages with a form, and its target: a text, and the folders into which the item can be
        /// moved.
        case edit, move

        /// Whether it is for accounts only that may change the volume.
        var changes: Bool {
            switch self {
            case .restore, .undelete, .settle, .rename, .delete, .upload, .makeFolder, .edit,
                .move:
                true
            case .page, .file, .preview, .compare, .activity, .events, .links: false
            }
        }

        var methods: [HTTPRequest.Method] {
            switch self {
            case .edit, .move, .links: [.get, .head, .post]
            default: changes ? [.post] : [.get, .head]
            }
        }
    }

    static let top = Routes.pages
    static let signInAddress = top + "/signin"
    static let devicesAddress = top + "/devices"
    static let passkeysAddress = top + "/passkeys"

    static let hubAddress = top + "/hub"
    static let plotAddress = hubAddress + "/storage.svg"

    static func account(_ account: Identifier, _ form: AccountForm) -> String {
        "\(hubAddress)/\(account)/\(form.rawValue)"
    }

    static func removal(ofPasskey passkey: Identifier) -> String {
        "\(passkeysAddress)/\(passkey)/remove"
    }

    static func revocation(of device: Identifier) -> String {
        "\(devicesAddress)/\(device)/revoke"
    }

    /// - Throws: `.notFound`.
    init(_ path: String) throws(Failure) {
        let parts = path.prefix { $0 != "?" }.split(
            separator: "/", omittingEmptySubsequences: false
        ).dropFirst().map(String.init)
        switch parts.count {
        case 1 where parts[0].isEmpty: self = .start
        case 1 where parts[0] == "web", 2 where parts[1].isEmpty: self = .volumes
        case 2 where parts[1] == "signin": self = .signIn
        case 2 where parts[1] == "signout": self = .signOut
        case 2 where parts[1] == "devices": self = .devices
        case 2 where parts[1] == "passkeys": self = .addPasskey
        case 2 where parts[1] == "hub": self = .hub
        case 3 where parts[1] == "hub" && parts[2] == "storage.svg": self = .storagePlot
        case 4 where parts[1] == "hub":
            guard let form = AccountForm(rawValue: parts[3]) else { throw Self.unknown }
            self = .account(try Self.id(parts[2]), form)
        case 4 where parts[1] == "devices" && parts[3] == "revoke":
            self = .revoke(try Self.id(parts[2]))
        case 4 where parts[1] == "passkeys" && parts[3] == "remove":
            self = .removePasskey(try Self.id(parts[2]))
        case 3 where parts[1] == "assets": self = .asset(parts[2])
        case 3...5 where parts[1] == "v": self = try Self.item(parts.dropFirst(2))
        default: throw Self.unknown
        }
    }

    private static let unknown = Failure(
        .notFound, "There is no such page. The volumes are on the start page.")

    private static func item(_ parts: ArraySlice<String>) throws(Failure) -> PagePath {
        var parts = parts
        let volume = try id(parts.removeFirst())
        let item = parts.isEmpty ? Identifier.root : try id(parts.removeFirst())
        guard let last = parts.first else { return .item(volume: volume, item: item, .page) }
        guard let view = View(rawValue: last), view != .page else { throw unknown }
        return .item(volume: volume, item: item, view)
    }

    private static func id(_ text: String) throws(Failure) -> Identifier {
        guard text.utf8.count == 32, let id = Identifier(text) else { throw unknown }
        return id
    }

    static func address(
        _ volume: Identifier, _ item: Identifier = .root, _ view: View = .page
    ) -> String {
        let place = item == .root && view == .page ? "" : "/\(item)"
        return "\(top)/v/\(volume)\(place)" + (view == .page ? "" : "/\(view.rawValue)")
    }

    var methods: [HTTPRequest.Method] {
        switch self {
        case .signIn: [.get, .head, .post]
        case .signOut, .revoke, .addPasskey, .removePasskey, .account: [.post]
        case .item(_, _, let view): view.methods
        default: [.get, .head]
        }
    }
}
