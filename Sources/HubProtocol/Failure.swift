import Model

/// The body of every answer but 2xx.
package struct Failure: Error, Codable, Hashable, Sendable {
    package enum Code: String, Codable, Sendable, CaseIterable {
        /// 400: not what the description asks for; asking again is of no use.
        case malformed
        /// 401: no token, an unknown or a revoked one. Nothing that waits is lost: sign in again.
        case unauthenticated
        /// 403: the code does not hold, or no longer.
        case code
        /// 404: no such thing, or not this account's.
        case notFound
        /// 405.
        case method
        /// 409: another account has the device's id.
        case taken
        /// 409: `missing` chunks are to be uploaded first; nothing was applied.
        case missing
        /// 409: the first number must be `expected`; nothing was applied.
        case gap
        /// 409: chunks were collected since `have`: ask again. Nothing was applied.
        case collection
        /// 410: the volume's epoch is `epoch`: the hub was restored. Absence means nothing now.
        case volumeEpoch
        /// 410: the device's epoch is another (`deviceEpoch`).
        case deviceEpoch
        /// 410: these numbers were used for other operations: the device was copied or rolled back.
        case copied
        /// 410: another process is this device, whose store was copied: this one is to become a
        /// device of its own.
        case cloned
        /// 413: more than `HubLimits`.
        case tooLarge
        /// 415.
        case contentType
        /// 429: too often; wait.
        case tooMany
        /// 500: our fault, logged.
        case failed
        /// 503: try again.
        case busy
        /// 507: the account has uploaded more than its quota. What is kept already stays.
        case quota
        /// 507: the hub's disk is full. Nothing was applied; try again later.
        case full
    }

    package var code: Code
    /// A sentence: what is wrong, and what to do.
    package var message: String
    package var missing: PackedIDs?
    package var expected: UInt64?
    package var epoch: Identifier?
    package var deviceEpoch: UInt32?

    package init(
        _ code: Code, _ message: String, missing: PackedIDs? = nil, expected: UInt64? = nil,
        epoch: Identifier? = nil, deviceEpoch: UInt32? = nil
    ) {
        self.code = code
        self.message = message
        self.missing = missing
        self.expected = expected
        self.epoch = epoch
        self.deviceEpoch = deviceEpoch
    }

    /// The status that an answer with it has.
    package var status: Int {
        switch code {
        case .malformed: 400
        case .unauthenticated: 401
        case .code: 403
        case .notFound: 404
        case .method: 405
        case .taken, .missing, .gap, .collection: 409
        case .volumeEpoch, .deviceEpoch, .copied, .cloned: 410
        case .tooLarge: 413
        case .contentType: 415
        case .tooMany: 429
        case .failed: 500
        case .busy: 503
        case .full, .quota: 507
        }
    }
}

extension Failure: CustomStringConvertible {
    package var description: String { message }
}
