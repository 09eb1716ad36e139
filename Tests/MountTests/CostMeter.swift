import CLinux
import Control
import Foundation
import Glibc
import Model
import Support
import SystemCalls

/// Counts what an action on a mount costs. It asks the daemon by its socket, which costs no
/// request.
struct CostMeter {
    /// FUSE requests by name, and the volume's own counters, without those that stayed at 0.
    struct Cost {
        var requests: [String: Int]
        var volume: [String: Int]
    }

    private let client: ControlClient

    init(_ volume: MountedVolume) throws {
        var value = [UInt8](repeating: 0, count: 256)
        let count = try check(
            cl_path_getxattr(volume.path, "user.concord.socket", &value, value.count))
        client = try ControlClient(socket: String(decoding: value[..<count], as: UTF8.self))
    }

    /// Returns when nothing is in progress, because RELEASE, FORGET and the requests after a
    /// notification come late.
    func of(_ body: () throws -> Void) throws -> Cost {
        let before = try settled()
        try body()
        let after = try settled()
        return Cost(
            requests: Self.difference(after.requests, before.requests),
            volume: Self.difference(after.volume, before.volume))
    }

    func requests(_ body: () throws -> Void) throws -> [String: Int] { try of(body).requests }

    func counts() throws -> StatisticsReport {
        try client.ask(Request(.statistics), as: StatisticsReport.self)
    }

    /// The counts when they have not changed for a moment.
    private func settled() throws -> StatisticsReport {
        var last = try counts()
        var quiet = 0
        return try wait(seconds: 30, for: "the mount to be quiet") {
            usleep(20_000)
            let now = try counts()
            quiet = now == last ? quiet + 1 : 0
            last = now
            return quiet >= 8 ? now : nil
        }
    }

    private static func difference(_ after: [String: Int], _ before: [String: Int])
        -> [String: Int]
    {
        var result: [String: Int] = [:]
        for (name, count) in after where count != before[name] ?? 0 {
            result[name] = count - (before[name] ?? 0)
        }
        return result
    }
}
