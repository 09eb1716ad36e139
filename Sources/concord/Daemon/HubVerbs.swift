import CLinux
import Control
import Glibc
import Model
import Sync
import Volume

/// Answers the verbs about the hub, and reports on it.
struct HubVerbs {
    let volume: Volume
    let membership: Membership
    let desk: ClaimService

    /// What people are told of a document if it is not known why the hub refused it.
    static let refused = "it is tried again when it changes here"

    func answer(_ request: Request) throws(VolumeError) -> Answer {
        switch try request.known() {
        case .signin:
            guard let address = request.address else { throw request.missing("address") }
            guard let code = request.code else { throw request.missing("code") }
            var hub = try HubAddress(address, certificate: request.certificate)
            if let text = request.fingerprint { try hub.check(Fingerprint(typed: text)) }
            _ = try membership.signIn(
                hub, code: code,
                deviceName: request.deviceName, volumeName: request.volumeName,
                owner: request.owner, isInsecure: request.insecure ?? false)
            desk.tell(identity: identity.token)
            return .identity(identity)
        case .signout:
            try SignOut(volume: volume, membership: membership, desk: desk)
                .run(isForced: request.force ?? false)
            return .identity(identity)
        case .identity: return .identity(identity)
        case .devices: return .devices(try devices())
        case .revoke:
            guard let device = request.device.flatMap({ Identifier($0) }) else {
                throw request.missing("device")
            }
            try membership.revoke(device)
            return .devices(try devices())
        case .offline:
            try membership.setOffline(true)
            return .identity(identity)
        case .online:
            try membership.setOffline(false)
            return .identity(identity)
        case .brake:
            return .brake(
                try BrakeReport(volume, membership.engine, isReleased: request.release == true))
        case .limit:
            let engine = try engine()
            var limits = engine.limits
            if let up = request.upload { limits.up = up == 0 ? nil : up }
            if let down = request.download { limits.down = down == 0 ? nil : down }
            engine.limit(up: limits.up, down: limits.down)
            return .done
        default: return .activity(activity(try engine()))
        }
    }

    private func engine() throws(VolumeError) -> SyncEngine {
        guard let engine = membership.engine else { throw membership.notSignedIn }
        return engine
    }

    private var identity: IdentityReport {
        var report = IdentityReport(name: volume.identity.name)
        guard let account = membership.account else { return report }
        report.token = account.identityToken
        report.hub = account.address.text
        report.user = account.user
        report.device = account.device.description
        report.deviceName = account.deviceName
        report.offline = account.isOffline
        return report
    }

    private func devices() throws(VolumeError) -> DevicesReport {
        DevicesReport(
            devices: try membership.devices().devices.map { device in
                DevicesReport.Device(
                    id: device.id.description, name: device.name, enrolled: device.enrolled,
                    seen: device.seen, revoked: device.isRevoked, here: device.isSelf)
            })
    }

    /// What synchronization transfers, and what is downloaded because a program reads it.
    private func lines(_ engine: SyncEngine) -> [ActivityReport.Line] {
        var lines = engine.report.activity.lines.values.map { line in
            ActivityReport.Line(
                path: line.path, direction: line.direction.rawValue, done: line.done,
                total: line.total)
        }
        let known = Set(lines.map(\.path))
        for document in (try? volume.downloads.active()) ?? []
        where !known.contains(document.path.shown) {
            lines.append(
                ActivityReport.Line(
                    path: document.path.shown, direction: Activity.Direction.down.rawValue,
                    done: document.bytes, total: document.bytesTotal))
        }
        return lines.sorted { $0.path < $1.path }
    }

    private func activity(_ engine: SyncEngine) -> ActivityReport {
        let total = engine.traffic.total
        return ActivityReport(
            lines: lines(engine), bytesUp: total.up, bytesDown: total.down,
            requests: total.requests)
    }

    /// The hub's part of the volume's status; nil when signed out.
    var report: HubReport? {
        guard let account = membership.account, let engine = membership.engine else { return nil }
        let state = engine.report
        let (word, reason) = state.connection.words
        var report = HubReport(
            address: account.address.text, user: account.user, volume: account.volumeName,
            state: word, reason: reason, head: state.head, cursor: state.cursor)
        report.take(account, state.standing)
        if let backlog = try? engine.backlog() {
            report.unsent = backlog.unsent
            report.sending = backlog.outbox
            report.due = backlog.due
            report.stuck = backlog.stuck
            report.refused = backlog.refused
            report.dataless = backlog.absent
        }
        report.held = state.brake?.count ?? 0
        let total = engine.traffic.total
        (report.bytesUp, report.bytesDown) = (total.up, total.down)
        let rate = engine.traffic.rate
        (report.rateUp, report.rateDown) = (rate.up, rate.down)
        report.moving = Array(lines(engine).prefix(5))
        report.waiting = waiting
        report.problems = state.problems
        // The engine knows why the hub refuses something only since this mount; an earlier refusal
        // gets a general reason.
        for document in report.waiting where document.reason == UnsafeDocument.Reason.refused.words
        {
            if report.problems[document.path.text] == nil {
                report.problems[document.path.text] = "The hub refused it: \(HubVerbs.refused)."
            }
        }
        return report
    }

    /// A few documents that are not at the hub yet, for the volume's status.
    private var waiting: [HubReport.Waiting] {
        let found = (try? volume.safety.unsafeDocuments(below: [], limit: 5)) ?? []
        let isHeld = membership.engine?.report.brake != nil
        return found.map { document in
            let words =
                document.reason == .undeleted && isHeld
                ? "is deleted here, which is held back (fsctl brake)" : document.reason.words
            return HubReport.Waiting(path: RawText(path: document.path), reason: words)
        }
    }
}

extension SyncEngine.Connection {
    var words: (state: String, reason: String) {
        switch self {
        case .connecting: ("connecting", "")
        case .up: ("up", "")
        case .offline: ("offline", "")
        case .down(let reason): ("down", reason)
        case .signedOut(let reason): ("signed out", reason)
        case .removed(let reason): ("removed", reason)
        }
    }
}

extension Fingerprint {
    fileprivate init(typed text: String) throws(VolumeError) {
        guard let fingerprint = Fingerprint(text) else {
            throw VolumeError(
                .invalid,
                "\"\(text)\" is not a fingerprint: it has 32 pairs of hexadecimal digits, as "
                    + "concord hub invite shows it.")
        }
        self = fingerprint
    }
}

extension BrakeReport {
    /// What the volume and the sync engine, if it has one, hold back now; they are released first
    /// if `isReleased`.
    fileprivate init(_ volume: Volume, _ engine: SyncEngine?, isReleased: Bool)
        throws(VolumeError)
    {
        let missing = volume.scan.missingDocuments
        if isReleased {
            engine?.releaseBrake()
            if missing > 0 { try volume.scan.acceptMissing() }
        }
        let brake = engine?.report.brake
        self.init(deletions: brake?.count ?? 0, items: brake?.items ?? 0, missing: missing)
    }
}
