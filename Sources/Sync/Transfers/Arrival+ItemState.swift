import HubProtocol
import Journal
import Model
import Reconcile
import Volume

extension Arrival {
    /// What the hub's state of an item puts into the tree.
    init(_ state: ItemState, _ contents: Contents) {
        self.init(item: state.id, kind: Item.Kind(state.kind))
        let known = state.attributes.compactMapValues(\.value)
        if let bits = known["mode"], bits.count == 2 {
            mode = UInt16(bits[0]) << 8 | UInt16(bits[1])
        }
        attributes = AttributeList(travelling: known)
        target = state.target.map { Array($0.utf8) } ?? []
        guard let current = state.current else { return }
        let manifest = contents.manifests[current.id]
        var version = Version(
            current, content: manifest.map(\.digest) ?? Digest.keyed(current.content))
        if let text = known["modified"], let modified = integer(bigEndian: text) {
            version.modified = modified
        }
        self.version = version
        self.manifest = manifest?.encoded ?? []
        isDataless = !contents.whole.contains(current.id) && current.size > 0
    }

    /// Returns the facts about something that a crash left in the tree or next to it; nil if the
    /// mirror no longer expects it. It does not need an engine, because the recorder asks before
    /// there is one. The manifest was in memory; without it the version would be another one than
    /// the contents that are in the tree.
    init?(
        expectedFor tag: ArrivalTag, _ journal: Journal, _ secrets: CredentialFile,
        _ arrived: () -> Manifest?
    ) {
        let row = try? journal.read { try $0.mirror(tag.item) }
        guard let state = row?.remote.flatMap({ ItemState(encoded: $0) }),
            tag.version == .none || state.current?.id == tag.version
        else { return nil }
        let contents = Contents()
        if let current = state.current {
            // The file itself shows whether its contents are complete.
            contents.whole = [current.id]
            let account = try? journal.read { try Account($0, secrets.read()) }
            // A program may have changed it since.
            if let account, let manifest = arrived(),
                account.keys.name(of: manifest.digest) == current.content
            {
                contents.manifests[current.id] = manifest
            }
        }
        self.init(state, contents)
    }
}
