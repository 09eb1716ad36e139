import Model

/// Which device may edit a document alone, as the hub's ledger keeps it. It is changed only within
/// a transaction of the ledger, so all hubs of one ledger have the same. It has no time: hubs have
/// clocks of their own (`GrantWatch`).
package struct GrantRow: Hashable, Sendable {
    package struct Holder: Hashable, Sendable {
        package var device: Identifier
        /// The process of the device.
        package var process: Identifier

        package init(device: Identifier, process: Identifier) {
            (self.device, self.process) = (device, process)
        }
    }

    /// The fencing token of the last grant. Each grant has a higher one than those before, because
    /// it is a position in the volume's journal that the grant has used.
    package private(set) var token: UInt64
    /// Who has the last grant, or had it.
    package private(set) var holder: Holder
    /// Whether the grant has not been released.
    package private(set) var isHeld: Bool
    /// The number of the holder's last request, which grows with each. So a hub sees each sign of
    /// life, and a request that arrives after a later one changes nothing.
    package private(set) var number: UInt64

    /// The first grant for a document.
    package init(token: UInt64, holder: Holder, number: UInt64) {
        self.init(token: token, holder: holder, isHeld: true, number: number)
    }

    /// A row as the ledger has stored it.
    package init(token: UInt64, holder: Holder, isHeld: Bool, number: UInt64) {
        (self.token, self.holder, self.isHeld, self.number) = (token, holder, isHeld, number)
    }

    /// Grants the document to a device.
    ///
    /// - Parameters:
    ///   - ended: A state of this row in which the holder has shown no sign of life for so long
    ///     that its time is over.
    ///   - next: Makes a token that is higher than all before. It is called only if the grant is a
    ///     new one.
    /// - Returns: The grant's token; nil if another device has the document.
    package mutating func take(
        by asker: Holder, number: UInt64, ended: GrantRow?, next: () throws -> UInt64
    ) rethrows -> UInt64? {
        if holder == asker {
            guard number > self.number else { return nil }
            if isHeld {
                // The process asks again, because an answer was lost.
                self.number = number
                return token
            }
        }
        // A device has one process at a time, so the grants of an earlier one have ended with it.
        guard !isHeld || holder.device == asker.device || ended == self else { return nil }
        self = GrantRow(token: try next(), holder: asker, number: number)
        return token
    }

    /// Takes a sign of life of the holder. Returns false if the grant is another's.
    package mutating func renew(_ token: UInt64, by asker: Holder, number: UInt64) -> Bool {
        guard isHeld, holder == asker, token == self.token, number > self.number else {
            return false
        }
        self.number = number
        return true
    }

    /// Lets a new process of the device go on with the grant of an earlier one, whose saves it may
    /// still have to send. Returns false if the grant is another's, or has ended.
    package mutating func resume(_ token: UInt64, by asker: Holder, number: UInt64) -> Bool {
        if holder == asker { return renew(token, by: asker, number: number) }
        guard isHeld, holder.device == asker.device, token == self.token else { return false }
        (holder, self.number) = (asker, number)
        return true
    }

    /// Ends a grant. One that has ended, or that was given again, is left alone.
    package mutating func release(_ token: UInt64, by asker: Holder, number: UInt64) {
        guard holder == asker, token == self.token, number > self.number else { return }
        (isHeld, self.number) = (false, number)
    }

    /// Whether an edit may become the current version. What may not becomes a conflict version.
    ///
    /// - Parameter token: The token of the claim under which the edit was made; nil if there was
    ///   none. A token that was never given, or was given to another device, is no better than an
    ///   old one.
    package func admits(_ token: UInt64?, from device: Identifier) -> Bool {
        guard let token else { return !isHeld || holder.device == device }
        return token == self.token && holder.device == device
    }
}
