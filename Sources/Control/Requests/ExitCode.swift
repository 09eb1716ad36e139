import Model

/// The exit codes of `concord` and `fsctl`. Scripts rely on these numbers.
package enum ExitCode: Int32, Sendable, CaseIterable {
    case good = 0
    /// The command succeeded, and its answer is negative: contents differ, or a store is damaged.
    case notGood = 1
    /// The command line is invalid.
    case usage = 2
    case notFound = 3
    case busy = 4
    case invalid = 5
    case denied = 6
    case damaged = 7
    case full = 8
    case newer = 9
    case timeout = 10
    case system = 11
    case cancelled = 12
    case refused = 13
    /// The contents are not on this device, and the hub cannot be asked.
    case offline = 14

    package init(_ code: VolumeError.Code) {
        self =
            switch code {
            case .notFound: .notFound
            case .busy: .busy
            case .invalid: .invalid
            case .denied: .denied
            case .damaged: .damaged
            case .full: .full
            case .newer: .newer
            case .timeout: .timeout
            case .system: .system
            case .cancelled: .cancelled
            case .refused: .refused
            case .offline: .offline
            }
    }
}
