import HubProtocol
import Model

/// Why a hub did not do what it was asked.
package enum HubFault: Error, Hashable, Sendable {
    /// Nobody answers there: not connected, refused, the name unknown. A sentence.
    case unreachable(String)
    /// It did not answer in time.
    case silent(String)
    /// It answered with an error.
    case refused(Failure)
    /// What came is no answer of a hub.
    case strange(String)

    package var message: String {
        switch self {
        case .unreachable(let text), .silent(let text), .strange(let text): text
        case .refused(let failure): failure.message
        }
    }

    /// Whether trying again later, as it is, makes sense.
    package var isPassing: Bool {
        switch self {
        case .unreachable, .silent, .strange: true
        case .refused(let failure):
            [.busy, .tooMany, .failed, .full].contains(failure.code)
        }
    }
}

extension HubFault: CustomStringConvertible {
    package var description: String { message }
}
