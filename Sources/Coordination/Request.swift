/// What is granted, or refused, as a whole: one access or several.
package struct Request: Hashable, Sendable {
    package struct Target: Hashable, Sendable {
        package var access: Access
        package var path: Path
        /// Of a reader who could not write the item: whoever may write it waits for such a turn for
        /// a bounded time only (`Event.outwaited`).
        package var yields: Bool

        package init(_ access: Access, _ path: Path, yields: Bool = false) {
            self.access = access
            self.path = path
            self.yields = yields && !access.isWriting
        }
    }

    package enum Manner: Hashable, Sendable {
        /// By the library or `fsctl coordinate`: holds its turn until it is released.
        case coordinated
        /// A system call of a program that knows of no turns: waits for its own, and is in nobody's
        /// way. When it is overdue, a coordinated claim before it refuses it, or it goes ahead.
        case plain(goesAhead: Bool)
        /// Holds nothing: asks the presenters of the items, and of all they contain, beforehand.
        case preparing
    }

    package var targets: [Target]
    package var manner: Manner
    /// Claims with a purpose in common are never in each other's way: those of one coordinator, and
    /// of all coordinators of one presenter.
    package var purposes: Set<Purpose>
    /// Presenters on whose behalf it is made; they are not told of it.
    package var presenters: Set<PresenterID>
    package var party: Party
    /// Whose system call it is, where that is not the party's; for people.
    package var process: Int32 = 0
    /// Refused rather than made to wait for others' turns.
    package var isTry: Bool

    package init(
        _ targets: [Target], manner: Manner = .coordinated, purposes: Set<Purpose> = [],
        presenters: Set<PresenterID> = [], party: Party, isTry: Bool = false
    ) {
        self.targets = targets
        self.manner = manner
        self.purposes = purposes
        self.presenters = presenters
        self.party = party
        self.isTry = isTry
    }
}

/// The one who asked, and whose end ends all that it has: a connection, or a request of the kernel.
package struct Party: Hashable, Sendable {
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

/// Where another module has requests of its own.
package typealias TurnRequest = Request
