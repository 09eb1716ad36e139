/// The clock algorithm that decides which directories keep a descriptor: a bounded ring with a hand
/// that takes the descriptor of a directory that was not used for one round.
struct DirectoryClock {
    private var ring: ContiguousArray<Node> = []
    private var hand = 0
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    /// Adds a directory that has just got a descriptor. Returns the descriptor that another one has
    /// lost.
    mutating func insert(_ node: Node) -> SharedDescriptor? {
        guard ring.count >= capacity else {
            ring.append(node)
            return nil
        }
        for _ in 0..<(2 * ring.count) {
            let candidate = ring[hand]
            let place = hand
            hand = (hand + 1) % ring.count
            if candidate.descriptor == nil {
                ring[place] = node
                return nil
            }
            // An orphan can be found only by its descriptor, and a directory in use is skipped
            // once.
            if candidate.flags.contains(.orphan) || candidate.flags.remove(.used) != nil {
                continue
            }
            ring[place] = node
            return candidate.descriptor.take()
        }
        ring.append(node)
        return nil
    }
}
