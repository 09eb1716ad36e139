import ChunkStore
import Model

/// What an authenticator is asked to sign: the time, and a code that only the hub can compute for
/// this time, purpose and browser. So the hub keeps nothing for people who are not signed in.
struct PasskeyChallenge: Hashable, Sendable {
    enum Purpose: String { case adding, signIn }

    /// When it was made, in nanoseconds since 1970.
    let time: Int64
    let bytes: [UInt8]

    /// How long it can be answered, in nanoseconds. A person may leave the page open meanwhile.
    private static let validity: Int64 = 900_000_000_000
    /// By how much the clocks of two hubs may differ.
    private static let tolerance: Int64 = 60_000_000_000

    /// - Parameters:
    ///   - secret: The hub's.
    ///   - browser: A secret of the browser that answers.
    init(_ purpose: Purpose, for browser: String, at time: Int64, secret: [UInt8]) {
        let stamp = withUnsafeBytes(of: time.bigEndian) { Array($0) }
        let subject = Array("\(purpose.rawValue) \(browser)".utf8)
        self.time = time
        bytes = stamp + Digest.keyed(by: secret, stamp + subject).bytes.dropFirst()
    }

    /// A challenge that an answer names; nil unless the hub made it for this browser and purpose a
    /// short time ago.
    init?(
        _ bytes: [UInt8], _ purpose: Purpose, for browser: String, now: Int64, secret: [UInt8]
    ) {
        guard bytes.count == 40 else { return nil }
        let time = Int64(bitPattern: bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
        let (age, isOverflow) = now.subtractingReportingOverflow(time)
        guard !isOverflow, (-PasskeyChallenge.tolerance...PasskeyChallenge.validity).contains(age)
        else { return nil }
        self.init(purpose, for: browser, at: time, secret: secret)
        guard Digest.sha256(self.bytes) == Digest.sha256(bytes) else { return nil }
    }
}
