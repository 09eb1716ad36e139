import Model

/// A link that the hub serves to anybody who has its address, without an account. It names a
/// document, so it follows renames and moves, and shows the present contents.
package struct ShareLink: Codable, Hashable, Sendable {
    package var id: Identifier
    package var item: Identifier
    /// The document's path in the volume, as the hub knows it.
    package var path: String
    /// The account that made the link. It is valid while this account may change the volume.
    package var maker: String
    /// Whether its visitors may save new versions.
    package var edits: Bool
    package var hasPassword: Bool
    /// Nanoseconds since 1970.
    package var made: Int64
    /// When it ends; nil for a link without an end.
    package var ends: Int64?
    /// When it was used last, within a minute.
    package var used: Int64?
    package var hasEnded: Bool
    /// Whether the document is deleted. The link works again when it is undeleted.
    package var isDeleted: Bool

    package init(
        id: Identifier, item: Identifier, path: String, maker: String, edits: Bool,
        hasPassword: Bool, made: Int64, ends: Int64?, used: Int64?, hasEnded: Bool, isDeleted: Bool
    ) {
        (self.id, self.item, self.path, self.maker) = (id, item, path, maker)
        (self.edits, self.hasPassword) = (edits, hasPassword)
        (self.made, self.ends, self.used) = (made, ends, used)
        (self.hasEnded, self.isDeleted) = (hasEnded, isDeleted)
    }
}

/// The answer of `GET` and `POST /v1/volumes/{volume}/links`.
package struct ShareLinkList: Codable, Hashable, Sendable {
    package var links: [ShareLink]
    /// The secret in the address of a link that was just made: the address is `/s/` and the token.
    /// The hub stores only its hash, so it cannot tell it again.
    package var token: String?

    package init(links: [ShareLink], token: String? = nil) {
        self.links = links
        self.token = token
    }
}

/// The body of `POST /v1/volumes/{volume}/links`.
package struct ShareLinkRequest: Codable, Hashable, Sendable {
    package enum Change: String, Codable, Hashable, Sendable { case make, revoke }

    package var change: Change
    /// The link to revoke.
    package var id: Identifier?
    /// The document of the new link.
    package var item: Identifier?
    package var edits: Bool?
    /// What visitors must enter; nil for a link without a password.
    package var password: String?
    /// Nanoseconds since 1970.
    package var ends: Int64?

    package init(
        linkTo item: Identifier, edits: Bool = false, password: String? = nil, ends: Int64? = nil
    ) {
        change = .make
        (self.item, self.edits, self.password, self.ends) = (item, edits, password, ends)
    }

    package init(revoking id: Identifier) {
        change = .revoke
        self.id = id
    }
}

extension ShareLinkList {
    package var objection: String? {
        if let token, token.utf8.count > HubLimits.noteBytes || !token.utf8.allSatisfy(isPlain) {
            return "The token of a link has letters and digits only."
        }
        for link in links {
            guard link.path.utf8.count <= HubLimits.linkPathBytes else {
                return "The path of a link's document has more than "
                    + "\(HubLimits.linkPathBytes) bytes."
            }
            let times = [link.made, link.ends, link.used].compactMap(\.self)
            if let objection = link.maker.objectionToDisplay
                ?? times.lazy.compactMap(\.objectionToTime).first
            {
                return objection
            }
        }
        return nil
    }

    private func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}

extension ShareLinkRequest {
    package var objection: String? {
        switch change {
        case .revoke:
            guard id != nil, item == nil, edits == nil, password == nil, ends == nil else {
                return "To revoke a link, give its id, and nothing else."
            }
            return nil
        case .make:
            guard item != nil, id == nil else { return "A new link needs an item, and no id." }
            if let password {
                guard password.count >= HubLimits.linkPasswordLength,
                    password.utf8.count <= HubLimits.nameBytes
                else {
                    return "The password of a link has at least \(HubLimits.linkPasswordLength) "
                        + "characters, and at most \(HubLimits.nameBytes) bytes."
                }
            }
            return ends?.objectionToTime
        }
    }
}
