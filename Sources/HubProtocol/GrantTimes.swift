import Glibc

/// The variable by which tests shorten how long grants last.
package enum GrantTimes {
    /// `CONCORD_GRANT_SECONDS` in the environment of a hub: how long it keeps a grant without a
    /// sign of life. Devices with the same variable rely on a grant for three quarters of that. In
    /// nanoseconds; nil for the usual times (`LeaseTerms`).
    package static let shortened = getenv("CONCORD_GRANT_SECONDS")
        .flatMap { Int64(String(cString: $0)) }
        .flatMap { (1...60).contains($0) ? $0 * 1_000_000_000 : nil }
}
