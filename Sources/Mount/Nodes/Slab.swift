/// Objects or values by numbers that are never reused: generation << 32 | index + 1. The first
/// gets number 1.
struct Slab<Element> {
    private var slots: ContiguousArray<Element?> = []
    private var generations: ContiguousArray<UInt32> = []
    private var free: ContiguousArray<UInt32> = []

    var count: Int { slots.count - free.count }

    /// Inserts the object that `make` creates for its number.
    mutating func insert(_ make: (UInt64) -> Element) -> Element {
        let index: Int
        if let vacant = free.popLast() {
            index = Int(vacant)
        } else {
            index = slots.count
            slots.append(nil)
            generations.append(0)
        }
        let element = make(UInt64(generations[index]) << 32 | UInt64(index + 1))
        slots[index] = element
        return element
    }

    var numbers: [UInt64] {
        slots.indices.filter { slots[$0] != nil }
            .map { UInt64(generations[$0]) << 32 | UInt64($0 + 1) }
    }

    func reduce<Result>(_ initial: Result, _ next: (Result, Element) -> Result) -> Result {
        slots.reduce(initial) { result, slot in slot.map { next(result, $0) } ?? result }
    }

    subscript(number: UInt64) -> Element? { index(of: number).flatMap { slots[$0] } }

    private func index(of number: UInt64) -> Int? {
        let index = Int(truncatingIfNeeded: number & 0xffff_ffff) - 1
        guard index >= 0, index < slots.count, generations[index] == UInt32(number >> 32) else {
            return nil
        }
        return index
    }

    /// An element that exists, in place.
    subscript(existing number: UInt64) -> Element {
        _read { yield slots[index(of: number)!]! }
        _modify { yield &slots[index(of: number)!]! }
    }

    mutating func remove(_ number: UInt64) -> Element? {
        guard let index = index(of: number), let element = slots[index] else { return nil }
        slots[index] = nil
        generations[index] &+= 1
        free.append(UInt32(index))
        return element
    }
}

extension Slab: Sendable where Element: Sendable {}
