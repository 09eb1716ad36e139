import HubProtocol
import Journal
import Model
import Reconcile
import Volume

extension Arrival {
    /// Describes what must appear in the tree for the hub's state of an item.
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

    /// Describes something that a crash left in the tree or next to it; nil if the mirror no
    /// longer expects it. The recorder asks for this before there is a sync engine.
    ///
    /// - Parameter arrived: Reads what is in the tree. The manifest that was fetched from the hub
    ///   is lost; without one, the version would have only the hub's name of its contents, which
    ///   equals no digest that is calculated here.
    init?(
        expectedFor tag: ArrivalTag, _ journal: Journal, _ secrets: CredentialFile,
        _ arrived: () -> Manifest?
    ) {
        let row = try? journal.read { try $0.hub.mirror(tag.item) }
        guard let state = row?.remote.flatMap({ ItemState(encoded: $0) }),
            tag.version == .none || state.current?.id == tag.version
        else { return nil }
        let contents = Contents()
        if let current = state.current {
            // The file itself shows whether its contents are complete.
            contents.whole = [current.id]
            let account = try? journal.read { try Account($0, secrets.read()) }
            // A program may have changed the file since. Then its contents are not the version's.
            if let account, let manifest = arrived(),
                account.keys.name(of: manifest.digest) == current.content
            {
                contents.manifests[current.id] = manifest
            }
        }
        self.init(state, contents)
    }
}
