import CLinux
import Model

/// The operations behind the socket, which the daemon implements with the volume and its mount.
package protocol ControlService: Sendable {
    /// Answers a request, on a thread that may block. `progress` returns false if the client is
    /// gone; long work then stops.
    func answer(_ request: Request, from peer: Peer, progress: @escaping (Progress) -> Bool)
        throws(VolumeError) -> Answer

    /// Handles a request about claims and presenters, whose answer is sent when it is known. It
    /// must not block.
    func hear(_ request: Request, from client: Connection) throws(VolumeError)

    /// Ends all claims, presenters and requests of a client that is gone.
    func left(_ client: Connection)
}

extension ControlService {
    package func hear(_ request: Request, from client: Connection) throws(VolumeError) {
        throw VolumeError(.invalid, "this volume has no file coordination")
    }

    package func left(_ client: Connection) {}
}

/// The result of a verb.
package enum Answer: Sendable {
    case done
    case volume(VolumeReport)
    case document(DocumentReport)
    case entries(EntriesReport)
    case history(HistoryReport)
    case deleted(DeletedReport)
    case contents(ContentsReport)
    case piece(PieceReport)
    case doctor(DoctorReport)
    case statistics(StatisticsReport)
    case identity(IdentityReport)
    case devices(DevicesReport)
    case members(MembersReport)
    case links(LinksReport)
    case volumes(VolumesReport)
    case activity(ActivityReport)
    case brake(BrakeReport)
    case evicted(EvictedReport)
    case pins(PinsReport)
    case purged(PurgedReport)
    case conflicts(ConflictsReport)
    case resolution(ResolutionReport)
    case added(AdditionReport)
    case rewind(RewindReport)
    case merge(MergeReport)
    case reverted(RevertReport)
    case sessions(SessionsReport)
    case who(WhoReport)

    /// Returns the whole line of the reply, with its newline.
    func line(id: Int?) -> [UInt8] {
        func line(_ value: some Codable & Sendable) -> [UInt8] {
            json(Reply(id: id, result: value)) + [UInt8(ascii: "\n")]
        }
        return switch self {
        case .done: line(Nothing())
        case .volume(let report): line(report)
        case .document(let report): line(report)
        case .entries(let report): line(report)
        case .history(let report): line(report)
        case .deleted(let report): line(report)
        case .contents(let report): line(report)
        case .piece(let report): line(report)
        case .doctor(let report): line(report)
        case .statistics(let report): line(report)
        case .identity(let report): line(report)
        case .devices(let report): line(report)
        case .members(let report): line(report)
        case .links(let report): line(report)
        case .volumes(let report): line(report)
        case .activity(let report): line(report)
        case .brake(let report): line(report)
        case .evicted(let report): line(report)
        case .pins(let report): line(report)
        case .purged(let report): line(report)
        case .conflicts(let report): line(report)
        case .resolution(let report): line(report)
        case .added(let report): line(report)
        case .rewind(let report): line(report)
        case .merge(let report): line(report)
        case .reverted(let report): line(report)
        case .sessions(let report): line(report)
        case .who(let report): line(report)
        }
    }
}

/// The process at the other end of a socket, as the kernel recorded it when it connected.
package struct Peer: Hashable, Sendable {
    package var process: Int32
    package var uid: UInt32
    package var gid: UInt32
    package var groups: [UInt32]

    package init(process: Int32, uid: UInt32, gid: UInt32, groups: [UInt32] = []) {
        self.process = process
        self.uid = uid
        self.gid = gid
        self.groups = groups
    }

    /// Returns nil if the kernel does not tell.
    init?(socket: Int32) {
        var (uid, gid, process) = (uid_t(0), gid_t(0), pid_t(0))
        guard cl_peer(socket, &uid, &gid, &process) >= 0 else { return nil }
        var groups = [gid_t](repeating: 0, count: 1024)
        let count = max(0, Int(cl_peer_groups(socket, &groups, Int32(groups.count))))
        self.init(process: process, uid: uid, gid: gid, groups: Array(groups.prefix(count)))
    }
}
