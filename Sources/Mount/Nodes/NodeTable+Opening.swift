import Synchronization

// Nodes in use: open, or being truncated.
extension NodeTable {
    /// Begins a use of a node. The node keeps `descriptor` (unless it has one) and its open state
    /// until the last use ends.
    func use(_ node: Node, _ descriptor: SharedDescriptor) -> (OpenState, SharedDescriptor) {
        locked {
            let state = node.opened ?? OpenState()
            node.opened = state
            state.users += 1
            let kept = node.descriptor ?? descriptor
            node.descriptor = kept
            return (state, kept)
        }
    }

    /// Notes the request that is about to replace or remove a file. Earlier closes by its writers
    /// may be reported after it.
    func displacing(_ node: Node?, unique: UInt64) {
        guard let node else { return }
        locked { node.opened?.displaced.store(unique, ordering: .relaxed) }
    }

    /// Called when a handle that reads and writes through the kernel was opened or released.
    func countSharedWriter(_ state: OpenState, by change: Int) {
        locked { state.sharedWriters += change }
    }

    /// Ends a use. A file with a name is found by that again, so it needs no descriptor.
    func endUse(of node: Node, _ state: OpenState) {
        let spare = collecting(node) { _ -> SharedDescriptor? in
            state.users -= 1
            guard state.users == 0 else { return nil }
            node.opened = nil
            return node.descriptorNotNeeded()
        }
        withExtendedLifetime(spare) {}
    }
}
