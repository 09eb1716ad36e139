/// A request for one or several accesses, which are granted or refused together.
package struct Request: Hashable, Sendable {
    package struct Target: Hashable, Sendable {
        package var access: Access
        package var path: Path
        /// Set for a reader who may not write the item. A requester who may write it waits for this
        /// claim only for a bounded time (`Event.yieldExpired`).
        package var yields: Bool

        package init(_ access: Access, _ path: Path, yields: Bool = false) {
            self.access = access
            self.path = path
            self.yields = yields && !access.isWriting
        }
    }

    package enum Manner: Hashable, Sendable {
        /// Made through the library or `fsctl coordinate`. The claim is held until it is released.
        case coordinated
        /// A system call of a plain program, which does not use claims. It waits like a claim, but
        /// no other request waits for it. When it is overdue, it goes ahead without the answers of
        /// presenters. If a coordinated claim is in its way then, it is refused, unless `goesAhead`
        /// is set.
        case plain(goesAhead: Bool)
        /// Only asks the presenters of the items, and of everything that they contain. Nothing is
        /// held.
        case preparing
    }

    package var targets: [Target]
    package var manner: Manner
    /// Requests with a purpose in common never wait for each other: those of one coordinator, and
    /// those of all coordinators of one presenter.
    package var purposes: Set<Purpose>
    /// The presenters for which the request is made. They are not sent messages about it.
    package var presenters: Set<PresenterID>
    package var clientSession: ClientSession
    /// The process that made the system call, if it is not the party's. Only shown to people.
    package var process: Int32 = 0
    /// Whether the request is refused instead of waiting for other claims.
    package var isTry: Bool

    package init(
        _ targets: [Target], manner: Manner = .coordinated, purposes: Set<Purpose> = [],
        presenters: Set<PresenterID> = [], clientSession: ClientSession, isTry: Bool = false
    ) {
        self.targets = targets
        self.manner = manner
        self.purposes = purposes
        self.presenters = presenters
        self.clientSession = clientSession
        self.isTry = isTry
    }
}

/// The originator of requests and presenters: a connection, or a request of the kernel. When it
/// ends, all its claims and presenters end.
package struct ClientSession: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

package struct Purpose: Hashable, Sendable {
    package let text: String
    package init(_ text: String) { self.text = text }
}

package struct ClaimID: Hashable, Sendable, Comparable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
    package static func < (a: ClaimID, b: ClaimID) -> Bool { a.number < b.number }
}

package struct PresenterID: Hashable, Sendable, Comparable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
    package static func < (a: PresenterID, b: PresenterID) -> Bool { a.number < b.number }
}

/// Another name for modules that have a type `Request` of their own.
package typealias ClaimRequest = Request
