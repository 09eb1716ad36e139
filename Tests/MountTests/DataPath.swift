import Foundation
import Glibc
import Support
import Testing

/// The two paths of data, directly from the kernel to the file or through the daemon, and the two
/// transports of requests, /dev/fuse or io_uring. Programs must see the same on all, so each test
/// of contents runs on all of them.
enum DataPath: String, CaseIterable, CustomTestStringConvertible {
    case passthrough = "passthrough,nouring"
    case nopassthrough = "nopassthrough,nouring"
    case rings = "passthrough,uring"
    case ringsWithoutPassthrough = "nopassthrough,uring"

    /// Without those that the kernel does not offer.
    static let allCases: [DataPath] =
        [passthrough, nopassthrough]
        + (Transport.obstacle == nil ? [.rings, .ringsWithoutPassthrough] : [])

    var testDescription: String { rawValue }

    /// Mount options.
    var options: [String] { rawValue.split(separator: ",").map(String.init) }

    var isPassthrough: Bool { self == .passthrough || self == .rings }

    /// Mounts a new volume for `body`.
    func with(
        options: [String] = [], _ body: (MountedVolume) throws -> Void
    ) throws {
        try MountedVolume.with(options: options + self.options) { volume in
            if self == .rings || self == .ringsWithoutPassthrough {
                let transport = try volume.transport
                guard transport == "io_uring" else { throw SupportError(transport) }
            }
            try body(volume)
        }
    }
}

/// What carries the kernel's requests.
enum Transport: String, CaseIterable, CustomTestStringConvertible {
    case device = "nouring"
    case rings = "uring"

    static let allCases: [Transport] = [device] + (obstacle == nil ? [.rings] : [])

    var testDescription: String { rawValue }

    /// Why no mount here can use io_uring; nil if it can.
    static let obstacle: String? =
        geteuid() != 0
        ? "switching io_uring on takes root"
        : access("/sys/module/fuse/parameters/enable_uring", W_OK) != 0
            ? "this kernel does not offer io_uring for FUSE" : nil

    func with(options: [String] = [], _ body: (MountedVolume) throws -> Void) throws {
        try MountedVolume.with(options: options + [rawValue]) { volume in
            let transport = try volume.transport
            #expect(transport == (self == .rings ? "io_uring" : "/dev/fuse"))
            try body(volume)
        }
    }
}

extension MountedVolume {
    private struct Report: Decodable {
        let transport: String
        let transportReason: String
    }

    private var report: Report {
        get throws {
            let output = try Programs.fsctl("status", "--json", path).succeed()
            return try JSONDecoder().decode(Report.self, from: Data(output.utf8))
        }
    }

    /// What `fsctl status` says carries the requests.
    var transport: String { get throws { try report.transport } }
    /// Why it is not io_uring.
    var whyNoRings: String { get throws { try report.transportReason } }
}
