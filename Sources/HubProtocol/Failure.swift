import Model

/// The body of each answer whose status is not 2xx.
package struct Failure: Error, Codable, Hashable, Sendable {
    package enum Code: String, Codable, Sendable, CaseIterable {
        /// 400: the request does not match the description. Sending it again does not help.
        case malformed
        /// 401: the token is missing, unknown or revoked. Waiting changes are kept; the person
        /// signs in again.
        case unauthenticated
        /// 403: the enrolment code is wrong, used or expired.
        case code
        /// 403: the account's role in the volume does not allow this. Nothing was applied; sending
        /// it again does not help.
        case forbidden
        /// 404: the thing does not exist, or the account is not a member of it.
        case notFound
        /// 405: this path does not support the request's method.
        case method
        /// 409: another account already has a device with this id.
        case taken
        /// 409: the chunks in `missing` must be uploaded first. Nothing was applied.
        case missing
        /// 409: the first operation must have the number `expected`. Nothing was applied.
        case gap
        /// 409: chunks were collected since `have`, so the device must ask `have` again. Nothing
        /// was applied.
        case collection
        /// 410: the volume's epoch is now `epoch`, because the hub was restored. The device must
        /// not infer deletions from what is absent.
        case volumeEpoch
        /// 410: the device's epoch is now `deviceEpoch`.
        case deviceEpoch
        /// 410: these numbers were used for other operations, so the device was copied or rolled
        /// back.
        case copied
        /// 410: the device's store was copied, and another process is the original device. This
        /// process must become a separate device (`split`).
        case cloned
        /// 413: the request exceeds one of the `HubLimits`.
        case tooLarge
        /// 415: the request's content type is not supported.
        case contentType
        /// 429: there are too many requests; the device must wait.
        case tooMany
        /// 500: the hub failed and has logged the reason.
        case failed
        /// 503: the hub is busy, or cannot reach its database; the device tries again.
        case busy
        /// 507: the account's quota is used up. What the hub already stores stays.
        case quota
        /// 507: the hub's disk is full. Nothing was applied; the device tries again later.
        case full
    }

    package var code: Code
    /// A sentence that says what is wrong and what to do.
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

    /// The HTTP status of an answer with this failure.
    package var status: Int {
        switch code {
        case .malformed: 400
        case .unauthenticated: 401
        case .code, .forbidden: 403
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
