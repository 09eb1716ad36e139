/// Maps inode numbers to node numbers: open addressing with linear probing, 16 bytes a slot, at
/// most 3/4 full. A Dictionary takes twice as much memory for a million entries. Inode 0 does not
/// occur.
struct InodeIndex {
    private var keys: ContiguousArray<UInt64>
    private var values: ContiguousArray<UInt64>
    private(set) var count = 0

    init(capacity: Int = 1024) {
        var slots = 16
        while slots < capacity { slots *= 2 }
        keys = ContiguousArray(repeating: 0, count: slots)
        values = ContiguousArray(repeating: 0, count: slots)
    }

    subscript(inode: UInt64) -> UInt64? {
        let slot = slot(of: inode)
        return keys[slot] == inode ? values[slot] : nil
    }

    mutating func set(_ inode: UInt64, to number: UInt64) {
        if (count + 1) * 4 > keys.count * 3 { grow() }
        let slot = slot(of: inode)
        if keys[slot] != inode { count += 1 }
        keys[slot] = inode
        values[slot] = number
    }

    /// Removes an inode and moves following entries up, so that no tombstones remain.
    mutating func remove(_ inode: UInt64) {
        var hole = slot(of: inode)
        guard keys[hole] == inode else { return }
        count -= 1
        let mask = keys.count - 1
        var next = (hole + 1) & mask
        while keys[next] != 0 {
            let distance = (next &- home(of: keys[next])) & mask
            if distance >= (next &- hole) & mask {
                keys[hole] = keys[next]
                values[hole] = values[next]
                hole = next
            }
            next = (next + 1) & mask
        }
        keys[hole] = 0
    }

    private func home(of inode: UInt64) -> Int {
        Int(truncatingIfNeeded: (inode &* 0x9e37_79b9_7f4a_7c15) >> 20) & (keys.count - 1)
    }

    /// The slot of an inode, or the empty slot for it.
    private func slot(of inode: UInt64) -> Int {
        let mask = keys.count - 1
        var slot = home(of: inode)
        while keys[slot] != inode && keys[slot] != 0 { slot = (slot + 1) & mask }
        return slot
    }

    private mutating func grow() {
        var larger = InodeIndex(capacity: keys.count * 2)
        for (slot, key) in keys.enumerated() where key != 0 { larger.set(key, to: values[slot]) }
        self = larger
    }
}
