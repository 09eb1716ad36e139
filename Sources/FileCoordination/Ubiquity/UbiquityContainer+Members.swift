import Control
import Foundation
import Model

extension UbiquityContainer {
    /// A user of the hub with whom a volume is shared, or its owner.
    public struct Member: Hashable, Sendable {
        /// What a member may do.
        public enum Role: String, Hashable, Sendable {
            /// Changes documents and members.
            case owner
            /// Changes documents.
            case editor
            /// Reads documents.
            case reader
        }

        /// The name of the account at the hub.
        public let name: String
        public let role: Role
        /// Since when the volume is shared with this user.
        public let since: Date
        /// Whether this device is signed in to this account.
        public let isCurrentUser: Bool
        /// The path of the folder that the member sees instead of the whole volume; nil for a
        /// member who sees all of it.
        public let folder: String?
    }

    /// The members of the volume, the owner first; empty while the volume belongs to no hub. The
    /// owner adds and removes members with `fsctl members`. It asks the hub, so do not call it on
    /// the main thread.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when the daemon or the hub does not
    ///   answer.
    public func members() throws(FileCoordinationError) -> [Member] {
        guard try identityToken() != nil else { return [] }
        do throws(VolumeError) {
            let report = try ControlClient(socket: socket).ask(
                Request(.members), as: MembersReport.self)
            return report.members.compactMap { member in
                guard let role = Member.Role(rawValue: member.role) else { return nil }
                let since = Date(timeIntervalSince1970: Double(member.since) / 1e9)
                return Member(
                    name: member.user, role: role, since: since, isCurrentUser: member.here,
                    folder: member.folder)
            }
        } catch {
            throw FileCoordinationError(error)
        }
    }
}
