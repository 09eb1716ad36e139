import CLinux
import Foundation
import Glibc
import Model

/// A directory for one test, removed at its end.
final class Scratch: Sendable {
    let path: String

    init(in parent: String = "/tmp") {
        var template = Array("\(parent)/volume-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { fatalError("mkdtemp: \(errno)") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}

/// Bytes that look random and are the same for equal seeds.
struct Noise: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        var word = state
        word = (word ^ word >> 32) &* 0xD6E8_FEB8_6659_FD93
        return word ^ word >> 32
    }

    mutating func bytes(_ count: Int) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(count + 8)
        while result.count < count {
            withUnsafeBytes(of: next()) { result.append(contentsOf: $0) }
        }
        result.removeLast(result.count - count)
        return result
    }
}

/// `a/b/c` as names.
func names(_ path: String) -> [Name] { path.split(separator: "/").map { Name($0) } }
