import Model

/// Why S3 did not do what it was asked.
struct S3Fault: Error, Hashable {
    /// The code of S3's answer; empty if there was no answer.
    let code: String
    let status: Int
    let message: String

    init(code: String = "", status: Int = 0, _ message: String) {
        (self.code, self.status, self.message) = (code, status, message)
    }

    /// Reads the fault out of an answer.
    init(status: Int, date: String, _ body: [UInt8]) {
        let answer = S3Element(body)
        let code = answer?["Code"] ?? ""
        let message = (answer?["Message"] ?? "").split(whereSeparator: \.isNewline)
            .joined(separator: " ")
        let isSkew = code == "RequestTimeTooSkewed" && !date.isEmpty
        self.init(
            code: code, status: status,
            isSkew ? "its clock says \(date)" : message.isEmpty ? "no reason given" : message)
    }

    /// Whether the same request may succeed soon.
    var isTransient: Bool {
        if status == 0 || status >= 500 || status == 429 { return true }
        return [
            "RequestTimeout", "SlowDown", "ConditionalRequestConflict", "OperationAborted",
            "BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody",
        ].contains(code)
    }

    /// All are `.offline`, so that requests are answered by 503 until it is corrected.
    func error(of address: S3Address) -> VolumeError {
        VolumeError(.offline, sentence(address))
    }

    private func sentence(_ address: S3Address) -> String {
        let place = "The blobs in \(address.name)"
        switch code {
        case "NoSuchBucket":
            return "There is no bucket \(address.bucket) at \(address.endpoint): create it, or "
                + "correct --blobs."
        case "InvalidAccessKeyId":
            return "\(address.endpoint) does not know the access key: check AWS_ACCESS_KEY_ID, or "
                + "the file with the keys."
        case "SignatureDoesNotMatch":
            return "\(address.endpoint) refuses the signature: check AWS_SECRET_ACCESS_KEY, or "
                + "the file with the keys."
        case "RequestTimeTooSkewed":
            return "\(address.endpoint) refuses requests because \(message) and the clock of this "
                + "machine differs: set the clock."
        case "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
            return "The temporary keys for \(address.name) are not valid any more: renew them and "
                + "start the hub again."
        case "PermanentRedirect", "AuthorizationHeaderMalformed":
            return "The bucket \(address.bucket) is in another region than \(address.region) "
                + "(\(message)): correct ?region= in --blobs."
        case "": break
        default:
            if status == 403 {
                return "\(place) may not be used with these keys (\(code): \(message)): allow "
                    + "them to list the bucket and to get, put and delete its objects."
            }
        }
        if status == 0 { return "\(place) cannot be reached: \(message)." }
        return "\(place) cannot be used: \(status) \(code) (\(message))."
    }
}
