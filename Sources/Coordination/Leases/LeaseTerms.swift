/// How long leases on documents last, and how many there are. Times are nanoseconds of a clock
/// that nobody can set and that also runs while the machine is suspended. Each party uses its own
/// clock, and no time of one party is compared with a time of another.
package enum LeaseTerms {
    /// The hub keeps a lease for this long after it was told of it, and a device that looks on
    /// shows it for this long after the hub has confirmed it.
    package static let duration: Int64 = 60_000_000_000
    /// The holder relies on a lease for this long after it began to tell the hub. It is shorter, so
    /// that the holder stops before the hub does, however late the hub was told.
    package static let reliance: Int64 = 45_000_000_000
    /// A document that is closed again within this time is not told. Most saves are shorter.
    package static let settling: Int64 = 50_000_000
    /// The time between two requests of one kind, so that a program that opens and closes documents
    /// all the time does not flood the hub.
    package static let pause: Int64 = 250_000_000
    /// The documents that the devices of an account have open in all volumes; a device without any
    /// counts as one.
    package static let accountDocuments = 4096
}
