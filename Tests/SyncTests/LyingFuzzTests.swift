import Foundation
import HubProtocol
import Support
import Synchronization
import Testing

/// `make fuzz` runs it longer.
private let minutes =
    ProcessInfo.processInfo.environment["CONCORD_FUZZ_MINUTES"].flatMap { Double($0) } ?? 0.5

/// Damages answers of a hub at one place: a field of JSON or of a page of changes gets another
/// value, and other bytes are changed, cut or lengthened.
private struct AnswerSpoiler {
    private var random: SeededRandom
    /// What the answers say since `forget`, as the lies' places and values.
    private(set) var lies: [String] = []

    init(_ random: SeededRandom) { self.random = random }

    mutating func forget() { lies = [] }

    /// Returns nil if the answer stays as it is.
    mutating func spoiled(_ body: [UInt8], of path: String) -> [UInt8]? {
        guard random.oneIn(2) else { return nil }
        lies.append("\(path.split(separator: "/").last ?? ""): ")
        if let page = ChangesAnswer(packed: body), let plain = try? JSONEncoder().encode(page),
            let other = spoiled(json: plain)
        {
            let lie = try? JSONDecoder().decode(ChangesAnswer.self, from: other)
            return lie?.packed ?? Array(other)
        }
        if let other = spoiled(json: Data(body)) { return Array(other) }
        var bytes = body
        lies[lies.count - 1] += "bytes"
        switch random.below(3) {
        case 0: bytes = Array(bytes.prefix(random.below(bytes.count + 1)))
        case 1: bytes += [UInt8](repeating: UInt8(random.below(256)), count: random.below(5000))
        default:
            for _ in 0..<4 where !bytes.isEmpty {
                bytes[random.below(bytes.count)] = UInt8(random.below(256))
            }
        }
        return bytes
    }

    private mutating func spoiled(json: Data) -> Data? {
        guard let value = try? JSONSerialization.jsonObject(with: json) else { return nil }
        var place = random.below(AnswerSpoiler.places(in: value))
        let other = replaced(value, at: &place, "")
        return try? JSONSerialization.data(withJSONObject: other, options: .fragmentsAllowed)
    }

    private static func places(in value: Any) -> Int {
        let inner = (value as? [String: Any]).map { Array($0.values) } ?? value as? [Any] ?? []
        return inner.reduce(1) { $0 + places(in: $1) }
    }

    /// Replaces the value at a place, counted in depth first. Afterwards `place` is negative.
    private mutating func replaced(_ value: Any, at place: inout Int, _ name: String) -> Any {
        place -= 1
        guard place >= 0 else {
            let other = random.pick(AnswerSpoiler.strange)()
            let (lie, truth) = ("\(other)".prefix(40), "\(value)".prefix(40))
            lies[lies.count - 1] += "\(name) = \(lie), not \(truth)"
            return other
        }
        if var fields = value as? [String: Any] {
            for key in fields.keys.sorted() where place >= 0 {
                fields[key] = fields[key].map { replaced($0, at: &place, "\(name).\(key)") }
            }
            return fields
        }
        if var list = value as? [Any] {
            for index in list.indices where place >= 0 {
                list[index] = replaced(list[index], at: &place, "\(name)[\(index)]")
            }
            return list
        }
        return value
    }

    private static let strange: [@Sendable () -> Any] = [
        { NSNull() }, { 0 }, { -1 }, { 1 }, { Int64.max }, { Int64.min }, { UInt64.max },
        { 1 << 50 }, { 0.5 }, { true }, { "" }, { "../x" }, { "/" }, { "\u{0}" }, { "\u{1b}[2J" },
        { ".versions" }, { String(repeating: "x", count: 70_000) }, { [Any]() },
        { [String: Any]() }, { [Int](repeating: 0, count: 3000) },
        { String(repeating: "0", count: 32) }, { String(repeating: "f", count: 32) },
        { "01" + String(repeating: "0", count: 64) }, { "AAAA" },
    ]
}

/// Beside `LyingHubTests`, whose lies are chosen.
@Suite("A hub that lies at random", .serialized) struct LyingFuzzTests {
    /// The maximum resident memory of the device.
    private static let memory = 400 << 20

    @Test("the device stays up, and goes on when the hub tells the truth") func lies() throws {
        let seed = SeededRandom(named: "Lies", usual: minutes < 1 ? 1 : nil)
        try Fleet.with(1) { fleet in
            let liar = try LyingHub(before: fleet.hub)
            defer { liar.stop() }
            let device = try MountedVolume(options: ["name=team"])
            defer { device.cleanUp() }
            func signIn() throws {
                try Programs.fsctl(
                    "signin", liar.address, "--code", try fleet.hub.invite(), "--at", device.path
                ).succeed()
            }
            try signIn()
            let process = device.pid
            let spoiler = Mutex(AnswerSpoiler(seed))
            let end = Date().addingTimeInterval(minutes * 60)
            var (round, told) = (0, 0)
            while round == 0 || Date() < end {
                round += 1
                spoiler.withLock { $0.forget() }
                liar.lie { path, body in spoiler.withLock { $0.spoiled(body, of: path) } }
                for number in 0..<10 {
                    try fleet.put(0, "theirs \(number)", "\(round)")
                    try? write("\(round)", to: "ours \(number)", of: device)
                    usleep(100_000)
                }
                told += liar.told
                liar.lie(nil)
                // A lie about the token signs the device out.
                if try fleet.report(device).hub.map({ $0.state == "signed out" }) ?? true {
                    try signIn()
                }
                let lies = spoiler.withLock { $0.lies.joined(separator: "\n") }
                try fleet.put(0, "truth \(round)", "truth")
                try wait(seconds: 120, for: "truth \(round); \(lies)\n\(device.said)") {
                    let path = "\(device.path)/truth \(round)"
                    return (try? String(contentsOfFile: path, encoding: .utf8)) == "truth"
                        ? true : nil
                }
                try write("answer", to: "answer \(round)", of: device)
                try wait(seconds: 120, for: "answer \(round); \(lies)\n\(device.said)") {
                    fleet.text(0, "answer \(round)") == "answer" ? true : nil
                }
            }
            print("\(told) lies in \(round) rounds")
            #expect(told > 0 && device.pid == process)
            let text = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
            let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("VmHWM") })
            let most = try #require(Int(line.filter(\.isNumber))) << 10
            print("the device had \(most >> 20) MB at most")
            #expect(most < Self.memory)
            // A lie that is a valid state cannot be recognized: the doctor may see a difference.
            let doctor = try Programs.fsctl("doctor", device.path).run()
            #expect(doctor.status <= 1, "\(doctor)")
            try device.unmount()
        }
    }

    private func write(_ text: String, to name: String, of device: MountedVolume) throws {
        try Data(text.utf8).write(to: URL(filePath: "\(device.path)/\(name)"))
    }
}
