import CLinux
import Model

/// Why and until when an item that is due at this device is left alone.
struct Postponement {
    /// When the item is examined again (monotonic nanoseconds); nil means now.
    private(set) var until: Int64?
    /// How often the item was postponed because it was in use or had just changed.
    private var delays = 0
    /// How often it was stuck.
    private var obstacles = 0
    /// The weak package whose other items wait for this one.
    private(set) var weakPackage: [Name]?

    var isRepeated: Bool { delays + obstacles > 1 }

    /// The item could not be brought to its new state.
    mutating func add(isStuck: Bool, weakPackage: [Name]?) {
        // A stuck item waits for a person to free space or a name, so it is retried rarely, but not
        // at first: a single failure after long use of the document may be over at once.
        let (times, longest): (Int, Double)
        if isStuck {
            obstacles += 1
            (times, longest) = (obstacles, 15)
        } else {
            delays += 1
            (times, longest) = (delays, 5)
        }
        let pause = min(longest, 0.02 * Double(1 << min(times, 10)))
        until = cl_clock_monotonic_ns() + Timestamp.span(seconds: pause)
        self.weakPackage = weakPackage
    }

    mutating func end() { until = nil }
}
