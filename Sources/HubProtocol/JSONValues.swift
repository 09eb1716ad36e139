extension Collection<UInt8> {
    /// The number of commas and opening brackets in a JSON text, which are about as many as its
    /// values. Decoding needs many times the memory of the text, so both ends compare this with
    /// `HubLimits.bodyValues` before.
    package var jsonValues: Int { lazy.filter { $0 == 0x2C || $0 == 0x5B || $0 == 0x7B }.count }
}
