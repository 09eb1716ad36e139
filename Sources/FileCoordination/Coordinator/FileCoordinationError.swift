import Foundation
import Model

/// Why an access was not granted: a code for programs and a sentence for people.
///
/// Compare its code, or catch one code:
///
///     do { try coordinator.coordinate(readingItemAt: url) { … } }
///     catch FileCoordinationError.cancelled { … }
public struct FileCoordinationError: Error, Hashable, Sendable {
    /// The kind of error.
    public enum Code: String, Hashable, Sendable {
        /// ``FileCoordinator/cancel()`` was called, during this call or earlier.
        case cancelled
        /// A presenter could not save its changes or could not close the item.
        case refused
        /// Another program holds a conflicting claim, and the coordinator does not wait.
        case busy
        /// This user may not do that with the item.
        case denied
        /// The options or the URL are invalid.
        case invalid
        /// The volume's daemon has ended or cannot be reached, contents cannot be downloaded, or no
        /// snapshot could be made.
        case unavailable

        /// Lets `catch FileCoordinationError.cancelled` match the code.
        public static func ~= (code: Code, error: any Error) -> Bool {
            (error as? FileCoordinationError)?.code == code
        }
    }

    /// The kind of error.
    public let code: Code
    /// The reason, as a whole sentence.
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
    /// The code of a call that was waiting when its coordinator was cancelled, or that was made
    /// later.
    public static let cancelled = Code.cancelled
    /// The code of a call that failed because a presenter could not save or close.
    public static let refused = Code.refused
    /// The code of a call of a coordinator that does not wait.
    public static let busy = Code.busy
    /// The code of an access that this user may not have.
    public static let denied = Code.denied
    /// The code of invalid options or URLs.
    public static let invalid = Code.invalid
    /// The code of a volume whose daemon has ended, or of contents that cannot be downloaded.
    public static let unavailable = Code.unavailable

    static let wasCancelled = FileCoordinationError(
        .cancelled,
        "the coordinator was cancelled and cannot be used any more; make another one")
}

extension FileCoordinationError: LocalizedError, CustomStringConvertible {
    /// The message.
    public var errorDescription: String? { message }
    /// The message.
    public var description: String { message }
}
