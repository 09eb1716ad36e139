extension Collection<UInt8> {
    /// The number of commas and opening brackets in a JSON text, which are about as many as its
    /// values. Decoding needs many times the memory of the text, so both ends compare this with
    /// `HubLimits.bodyValues` before.
    package var jsonValues: Int {
        // A buffer's bytes are counted by a plain loop. A generic one calls a function for each.
        withContiguousStorageIfAvailable(Self.jsonValues) ?? Self.jsonValues(self)
    }

    private static func jsonValues(_ bytes: some Sequence<UInt8>) -> Int {
        var count = 0
        for byte in bytes where byte == 0x2C || byte == 0x5B || byte == 0x7B { count += 1 }
        return count
    }
}
