import Control
import Coordination
import Model
import Volume

// Converts between the values of the control protocol and those of the arbiter.

extension Access.ReadingOptions {
    init(_ words: [AccessField.ReadingOption]) {
        self = []
        for word in words {
            switch word {
            case .withoutChanges: insert(.withoutChanges)
            case .resolvesSymbolicLink: insert(.resolvesSymbolicLink)
            case .immediatelyAvailableMetadataOnly: insert(.immediatelyAvailableMetadataOnly)
            case .forUploading: insert(.forUploading)
            }
        }
    }
}

extension Access {
    /// The word that `fsctl locks` shows.
    var text: String {
        switch self {
        case .read: "read"
        case .write(let option): option.rawValue
        }
    }
}

extension ClaimRequest {
    func isWriting(_ index: Int) -> Bool { targets[index].access.isWriting }
}

extension Refusal {
    var error: VolumeError {
        switch self {
        case .busy:
            VolumeError(.busy, "another program holds a conflicting claim; fsctl locks shows which")
        case .cancelled: VolumeError(.cancelled, "the claim was cancelled before it was granted")
        case .failed(let sentence): VolumeError(.refused, sentence)
        }
    }
}

extension PresenterMessage.Kind {
    var capability: Presenter.Capabilities {
        switch self {
        case .relinquishToReader: .relinquishToReader
        case .relinquishToWriter: .relinquishToWriter
        case .save: .save
        case .accommodateDeletion: .accommodateDeletion
        case .accommodateSubitemDeletion: .accommodateSubitemDeletion
        case .accommodateEviction: .accommodateEviction
        case .ubiquityChanged: .ubiquityAttributes
        case .reacquire: []
        case .changed: .change
        case .moved: .move
        case .subitemAppeared: .subitemAppearance
        case .subitemChanged: .subitemChange
        case .subitemMoved: .subitemMove
        case .versionGained, .versionLost, .versionResolved: .versions
        case .subitemVersionGained, .subitemVersionLost, .subitemVersionResolved: .subitemVersions
        }
    }
}

extension PresenterMessage {
    init(_ message: Message, to presenter: Int) {
        self.init(presenter: presenter, kind: Kind(message))
        turn = message.claim.map { Int($0.number) }
        switch message {
        case .reacquire(let claim): turn = Int(claim.number)
        case .accommodateSubitemDeletion(_, let path), .subitemAppeared(let path),
            .subitemChanged(let path):
            self.path = RawText(path: path.names)
        case .moved(let to): self.to = RawText(path: to.names)
        case .subitemMoved(let from, let to):
            (path, self.to) = (RawText(path: from.names), RawText(path: to.names))
        case .version(_, let id): version = id
        case .subitemVersion(let path, _, let id):
            (self.path, version) = (RawText(path: path.names), id)
        default: break
        }
    }
}

extension PresenterMessage {
    /// The message as this user may see it; nil when they may not know its names. A message that
    /// asks for something is always sent: a name they may not know is replaced by the nearest
    /// directory that they may.
    func known(to peer: Peer, of volume: Volume) -> PresenterMessage? {
        if peer.isOwner { return self }
        var message = self
        guard var names = path?.path else { return message }
        let isKnown = volume.mayKnow(peer, of: names)
        if kind == .subitemMoved {
            guard let to, volume.mayKnow(peer, of: to.path ?? []) else { return nil }
            if isKnown { return message }
            (message.kind, message.path, message.to) = (.subitemAppeared, to, nil)
            return message
        }
        guard !isKnown else { return message }
        guard kind.isAsking else { return nil }
        repeat { names.removeLast() } while !volume.mayKnow(peer, of: names)
        message.path = RawText(path: names)
        return message
    }
}

extension PresenterMessage.Kind {
    fileprivate init(_ message: Message) {
        self =
            switch message {
            case .relinquishToReader: .relinquishToReader
            case .relinquishToWriter: .relinquishToWriter
            case .save: .save
            case .accommodateDeletion: .accommodateDeletion
            case .accommodateSubitemDeletion: .accommodateSubitemDeletion
            case .reacquire: .reacquire
            case .changed: .changed
            case .moved: .moved
            case .subitemAppeared: .subitemAppeared
            case .subitemChanged: .subitemChanged
            case .subitemMoved: .subitemMoved
            case .version(.gained, _): .versionGained
            case .version(.lost, _): .versionLost
            case .version(.resolved, _): .versionResolved
            case .subitemVersion(_, .gained, _): .subitemVersionGained
            case .subitemVersion(_, .lost, _): .subitemVersionLost
            case .subitemVersion(_, .resolved, _): .subitemVersionResolved
            }
    }
}
