import Control
import Coordination
import Model

/// A connection with its claims and presenters.
struct ClaimClient {
    let connection: Connection
    var clientSession: ClientSession
    /// The arbiter's ids by the client's own numbers.
    var claims: [Int: ClaimID] = [:]
    var presenters: [Int: PresenterID] = [:]
    /// Granted claims that are not answered yet, because their contents are being downloaded.
    /// Removing a claim from the set ends its download.
    var downloading: Set<ClaimID> = []
    /// The connection itself, if it watches.
    var watcher: Connection?
    /// The path that it watches, with all below it.
    var watched: Path?
    /// Whether it wants events of kind `contents`.
    var watchesContents = false
    /// The names in the paths of all claims and presenters, and of each one.
    fileprivate private(set) var nameCount = 0
    /// The user, if that is not the owner of the volume.
    fileprivate let otherUser: UInt32?
    private let namesMax: Int
    private var claimNames: [Int: Int] = [:]
    private var presenterNames: [Int: Int] = [:]

    init(_ connection: Connection, clientSession: ClientSession) {
        let peer = connection.peer
        (self.connection, self.clientSession) = (connection, clientSession)
        otherUser = peer.isOwner ? nil : peer.uid
        namesMax = peer.isOwner ? Limits.claimedNamesMax : Limits.claimedNamesOfOthersMax
    }

    /// What its claims and presenters cost, in names.
    fileprivate var cost: Int {
        nameCount + Limits.claimCost * (claims.count + presenters.count)
    }

    /// Returns false if the number is taken or there are too many claims.
    mutating func add(claim number: Int, _ id: ClaimID, names: Int) -> Bool {
        guard claims[number] == nil, claims.count < Limits.claimsMax,
            nameCount + names <= namesMax
        else { return false }
        (claims[number], claimNames[number]) = (id, names)
        nameCount += names
        return true
    }

    mutating func remove(claim number: Int) -> ClaimID? {
        nameCount -= claimNames.removeValue(forKey: number) ?? 0
        return claims.removeValue(forKey: number)
    }

    /// Returns whether a presenter may be added.
    func hasRoom(forPresenter number: Int, names: Int) -> Bool {
        presenters[number] == nil && presenters.count < Limits.presentersMax
            && nameCount + names <= namesMax
    }

    mutating func add(presenter number: Int, _ id: PresenterID, names: Int) {
        (presenters[number], presenterNames[number]) = (id, names)
        nameCount += names
    }

    mutating func remove(presenter number: Int) {
        nameCount -= presenterNames.removeValue(forKey: number) ?? 0
        presenters[number] = nil
    }
}

extension [UInt64: ClaimClient] {
    /// Refuses what would cost the daemon too much together with the claims and presenters of all
    /// connections of all other users.
    func admit(_ names: Int, of client: Connection) throws(VolumeError) {
        guard let most = exceededShare(names, of: client.number) else { return }
        throw VolumeError(
            .busy,
            "the claims and presenters of user \(client.peer.uid) on this volume are too many: all "
                + "their paths have \(most) names at most now; release some, or try again later")
    }

    /// Returns the share of a connection's user if one more claim or presenter exceeds it. The
    /// owner of the volume has no share.
    private func exceededShare(_ names: Int, of number: UInt64) -> Int? {
        guard let user = self[number]?.otherUser else { return nil }
        var (own, others) = (names + Limits.claimCost, 0)
        for client in values {
            if client.otherUser == user {
                own += client.cost
            } else if client.otherUser != nil {
                others += client.cost
            }
        }
        // So there is always something left for the next user.
        let share = (Limits.claimedNamesTogetherMax - others) / 2
        return own <= share ? nil : share
    }

    /// Sends a message that belongs to no claim. Returns false if there is no such presenter.
    @discardableResult
    func push(_ kind: PresenterMessage.Kind, turn: ClaimID? = nil, to id: PresenterID) -> Bool {
        for client in values {
            guard let number = client.presenters.first(where: { $0.value == id })?.key else {
                continue
            }
            var message = PresenterMessage(presenter: number, kind: kind)
            message.turn = turn.map { Int($0.number) }
            client.connection.push(message)
            return true
        }
        return false
    }
}
