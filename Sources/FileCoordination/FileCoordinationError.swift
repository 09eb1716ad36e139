import Foundation
import Model

/// Why a turn was not given: a code for programs, a sentence for people.
///
/// Compare with a code, or catch one:
///
///     do { try coordinator.coordinate(readingItemAt: url) { … } }
///     catch FileCoordinationError.cancelled { … }
public struct FileCoordinationError: Error, Hashable, Sendable {
    /// What kind of trouble it is.
    public enum Code: String, Hashable, Sendable {
        /// ``FileCoordinator/cancel()`` was called, now or earlier.
        case cancelled
        /// A presenter could not save its changes, or could not let go of the item.
        case refused
        /// Somebody else has the turn, and the coordinator does not wait for turns.
        case busy
        /// This user may not do that with the item.
        case denied
        /// Options or a URL that make no sense.
        case invalid
        /// The volume's daemon has ended or cannot be reached, or no snapshot could be made.
        case unavailable

        /// Lets `catch FileCoordinationError.cancelled` mean the code.
        public static func ~= (code: Code, error: any Error) -> Bool {
            (error as? FileCoordinationError)?.code == code
        }
    }

    /// What kind of trouble it is.
    public let code: Code
    /// A whole sentence.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    init(_ error: VolumeError) {
        let code: Code =
            switch error.code {
            case .cancelled: .cancelled
            case .refused: .refused
            case .busy, .timeout: .busy
            case .denied: .denied
            case .invalid: .invalid
            default: .unavailable
            }
        self.init(code, error.message)
    }
}

extension FileCoordinationError {
    /// Of a call that was waiting when its coordinator was cancelled, or that came after that.
    public static let cancelled = Code.cancelled
    /// Of a call that a presenter's failure ended.
    public static let refused = Code.refused
    /// Of a coordinator that does not wait.
    public static let busy = Code.busy
    /// Of an item that this user may not use so.
    public static let denied = Code.denied
    /// Of options or URLs that make no sense.
    public static let invalid = Code.invalid
    /// Of a volume whose daemon has ended, or contents that cannot be downloaded.
    public static let unavailable = Code.unavailable

    static let wasCancelled = FileCoordinationError(
        .cancelled,
        "the coordinator was cancelled: it gives no more turns; make another one")
}

extension FileCoordinationError: LocalizedError, CustomStringConvertible {
    /// The sentence.
    public var errorDescription: String? { message }
    /// The sentence.
    public var description: String { message }
}
