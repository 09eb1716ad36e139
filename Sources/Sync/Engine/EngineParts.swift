import Logging
import Volume

/// What all parts of a sync engine share. Each value guards itself.
struct EngineParts: Sendable {
    let volume: Volume
    let tree: any Applying
    let client: HubClient
    let journal: SyncJournal
    let state: Shared<SyncEngine.State>
    let threads: EngineThreads
    let events: EngineEvents
    let settings: SyncSettings
    let log: Logger
}

/// A part of a sync engine, which uses the shared parts as its own.
protocol EnginePart {
    var parts: EngineParts { get }
}

extension EnginePart {
    var volume: Volume { parts.volume }
    var tree: any Applying { parts.tree }
    var client: HubClient { parts.client }
    var journal: SyncJournal { parts.journal }
    var account: Account { parts.journal.account }
    var state: Shared<SyncEngine.State> { parts.state }
    var threads: EngineThreads { parts.threads }
    var events: EngineEvents { parts.events }
    var settings: SyncSettings { parts.settings }
    var log: Logger { parts.log }
}
