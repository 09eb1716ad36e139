import Volume

/// What all groups of requests share: the tree, who asks, what a request must wait for, and what
/// carries it out later.
struct RequestParts: Sendable {
    let tree: Tree
    let callers: Callers
    let claims: RequestClaims
    let grantGate: GrantGate
    let parking: Parking
    let notifier: Notifier
    let fetcher: ContentFetcher
    let staleSaves: StaleSaves
    let madeOwnerFiles: MadeOwnerFiles
    let ownerFileReaders: OwnerFileReaders
}

/// A type that carries out requests, and uses the shared parts as its own.
protocol RequestGroup: Sendable {
    var parts: RequestParts { get }
}

extension RequestGroup {
    var tree: Tree { parts.tree }
    var volume: Volume { parts.tree.volume }
    var callers: Callers { parts.callers }
    var claims: RequestClaims { parts.claims }
    var grantGate: GrantGate { parts.grantGate }
    var parking: Parking { parts.parking }
    var notifier: Notifier { parts.notifier }
    var fetcher: ContentFetcher { parts.fetcher }
    var staleSaves: StaleSaves { parts.staleSaves }
    var madeOwnerFiles: MadeOwnerFiles { parts.madeOwnerFiles }
    var ownerFileReaders: OwnerFileReaders { parts.ownerFileReaders }
}
