import HubProtocol
import Journal
import Model
import Volume

/// What the account is in its volume, as the hub last said.
package struct Standing: Hashable, Sendable {
    package var role: Role
    /// The number of the volume's members.
    package var members: Int

    package init(role: Role = .owner, members: Int = 1) {
        self.role = role
        self.members = members
    }

    /// Reads the headers of an answer; nil if they are not valid. An older hub sends none.
    init?(role word: String?, members text: String?) {
        self.init()
        guard let word else { return }
        guard let role = Role(rawValue: word), let members = text.flatMap({ Int($0) }),
            (1...HubLimits.members).contains(members)
        else { return nil }
        (self.role, self.members) = (role, members)
    }

    /// Whether this device may change the volume at the hub.
    package var maySend: Bool { role.allows(.commit) }
}

/// Keeps what the account is in its volume: in the journal, because the next mount may begin while
/// the hub cannot be reached; in the mount; and in what versions say.
struct StandingKeeper: EnginePart, Sendable {
    let parts: EngineParts

    /// Takes over what the hub says. Returns whether the right to send has changed.
    func learn(_ standing: Standing) throws(VolumeError) -> Bool {
        let before = state.withLock { $0.standing }
        guard standing != before else { return false }
        try volume.recorder.perform { _, t in try standing.store(t) }
        state.withLock { $0.standing = standing }
        try apply()
        return before.maySend != standing.maySend
    }

    /// Makes the mount read-only for a reader, and lets versions name the account where several
    /// people save.
    func apply() throws(VolumeError) {
        let standing = state.withLock { $0.standing }
        volume.readOnly.set(!standing.maySend)
        try volume.recorder.record(as: standing.members > 1 ? account.user : nil)
    }

    /// What the connection is after a failure that does not pass by itself; nil after others.
    func end(after fault: HubFault) -> SyncEngine.Connection? {
        guard case .refused(let failure) = fault else { return nil }
        switch failure.code {
        case .unauthenticated: return .signedOut(failure.message)
        case .notFound: return .removed(account.removal)
        default: return nil
        }
    }
}

extension Account {
    /// What the status says while the hub does not let this account use the volume.
    fileprivate var removal: String {
        let what =
            owner.map {
                "You are not a member of \"\(volumeName)\" of \($0) any more, or it was "
                    + "removed."
            } ?? "The volume \"\(volumeName)\" does not exist at the hub any more."
        return what + " Everything that is here stays here, with what was not sent (fsctl signout "
            + "--force makes the volume local)."
    }
}

extension Standing {
    private static let key = "hub.role"

    init(_ reader: Reader) throws(VolumeError) {
        let words = try reader.value(Standing.key)?.split(separator: " ").map(String.init) ?? []
        self.init()
        guard words.count == 2, let role = Role(rawValue: words[0]), let members = Int(words[1])
        else { return }
        (self.role, self.members) = (role, members)
    }

    func store(_ t: Transaction) throws(VolumeError) {
        try t.set(Standing.key, to: "\(role.rawValue) \(members)")
    }
}
