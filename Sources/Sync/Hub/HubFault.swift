import HubProtocol
import Model

/// Why a request to a hub failed.
package enum HubFault: Error, Hashable, Sendable {
    /// The hub cannot be reached: the connection failed or was refused, or the name is unknown. The
    /// value is a sentence.
    case unreachable(String)
    /// The hub did not answer in time.
    case silent(String)
    /// The hub answered with an error.
    case refused(Failure)
    /// The answer cannot be that of a hub.
    case invalidAnswer(String)

    package var message: String {
        switch self {
        case .unreachable(let text), .silent(let text), .invalidAnswer(let text): text
        case .refused(let failure): failure.message
        }
    }

    /// Whether the same request may succeed later.
    package var isPassing: Bool {
        switch self {
        case .unreachable, .silent, .invalidAnswer: true
        case .refused(let failure):
            [.busy, .tooMany, .failed, .full].contains(failure.code)
        }
    }
}

extension HubFault: CustomStringConvertible {
    package var description: String { message }
}
