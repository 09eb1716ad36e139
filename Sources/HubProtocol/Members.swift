import Model

/// What an account may do in a volume. Each volume has exactly one owner: the account that created
/// it, to whose quota its bytes count.
package enum Role: String, Codable, Hashable, Sendable, CaseIterable {
    case reader, editor, owner

    /// Decides about everything that a hub does in a volume for an account. There is no other
    /// place that does. An account without a role is answered as if the volume did not exist.
    package func allows(_ operation: VolumeOperation) -> Bool {
        switch operation {
        case .open, .have, .read, .changes, .manifests, .feed, .durability, .wanted, .members,
            .leases, .page, .links:
            true
        case .chunks, .commit, .holding, .edit, .grant, .pageForm, .makeLink: self != .reader
        case .changeMembers: self == .owner
        case .leave: self != .owner
        }
    }

    /// The refusal of an operation that the role does not allow.
    package func refusal(of operation: VolumeOperation) -> Failure {
        switch operation {
        case .changeMembers:
            Failure(.forbidden, "Only the volume's owner can change its members.")
        case .makeLink:
            Failure(
                .forbidden,
                "You are a \(rawValue) of this volume, so you cannot make links that others open: "
                    + "its owner and editors can.")
        case .leave:
            Failure(
                .forbidden,
                "The owner cannot be removed from the volume, and has no other role in it.")
        default:
            Failure(
                .forbidden,
                "You are a \(rawValue) of this volume, so you cannot change it. Nothing is lost: "
                    + "what you changed stays on your device. The volume's owner can make you an "
                    + "editor (fsctl members role).")
        }
    }
}

extension Role {
    package static let refusalInFolder = Failure(
        .forbidden,
        "You are a member of a folder of a volume, and this works only in a whole volume.")
}

extension VolumeOperation {
    /// Whether the members of a folder can do it, in that folder. They are refused what is not
    /// limited to folders.
    package var worksInFolders: Bool {
        switch self {
        case .open, .have, .chunks, .read, .commit, .changes, .manifests, .feed, .holding,
            .durability, .wanted, .members, .leases, .edit, .grant, .leave:
            true
        case .changeMembers, .page, .pageForm, .links, .makeLink: false
        }
    }
}

/// Everything that a hub does in a volume for an account.
package enum VolumeOperation: String, Sendable, CaseIterable {
    /// Lists the volume and gives its keys.
    case open
    case have, chunks, read, commit, changes, manifests, feed, holding, durability, wanted
    /// Lists the members.
    case members
    /// Lists the documents that are open on other devices, and tells of those that are shown on
    /// this one.
    case leases
    /// Tells of documents that are open for writing.
    case edit
    /// Asks for documents that only one device may edit.
    case grant
    /// Adds and removes members and changes their roles.
    case changeMembers
    /// Removes the account itself from the members.
    case leave
    /// Shows what the volume has in a browser, or by WebDAV.
    case page
    /// Changes the volume by a form of a page, or by WebDAV.
    case pageForm
    /// Lists links for people without an account, and revokes them: the owner all of the volume,
    /// others their own.
    case links
    /// Makes such a link. It is valid only while its maker has the right for this.
    case makeLink
}

extension VolumeCall {
    /// What an account needs the right for before the hub reads the request's body. The request
    /// may need the right for more, which its body decides.
    package var operation: VolumeOperation {
        switch self {
        case .have: .have
        case .chunks: .chunks
        case .read: .read
        case .commit: .commit
        case .changes: .changes
        case .manifests: .manifests
        case .feed: .feed
        case .holding: .holding
        case .durability: .durability
        case .wanted: .wanted
        case .members: .members
        case .leases: .leases
        case .links: .links
        case .grants: .grant
        }
    }
}

/// The answer of `GET` and `POST /v1/volumes/{volume}/members`.
package struct MemberList: Codable, Hashable, Sendable {
    package var members: [Member]

    package init(members: [Member]) { self.members = members }
}

package struct Member: Codable, Hashable, Sendable {
    /// The account's name.
    package var user: String
    package var role: Role
    /// Nanoseconds since 1970.
    package var since: Int64
    /// Whether this is the account that sent the request.
    package var isSelf: Bool
    /// The path of the folder that the member sees, below what the asking account sees; nil for a
    /// member who sees all of that.
    package var folder: String?

    package init(
        user: String, role: Role, since: Int64, isSelf: Bool = false, folder: String? = nil
    ) {
        self.user = user
        self.role = role
        self.since = since
        self.isSelf = isSelf
        self.folder = folder
    }
}

/// The body of `POST /v1/volumes/{volume}/members`.
package struct MemberRequest: Codable, Hashable, Sendable {
    package enum Change: String, Codable, Hashable, Sendable { case add, role, remove }

    package var change: Change
    /// The account's name.
    package var user: String
    /// The new role; nil if the member is removed.
    package var role: Role?
    /// The directory that a new member sees as the volume; nil if it is the whole volume.
    package var folder: Identifier?

    package init(
        _ change: Change, _ user: String, role: Role? = nil, folder: Identifier? = nil
    ) {
        self.change = change
        self.user = user
        self.role = role
        self.folder = folder
    }
}
