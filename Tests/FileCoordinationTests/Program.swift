import Foundation
import Glibc
import Support
import Synchronization

/// A running `turns-program`, with the commands that it gets and its output.
final class Program {
    struct Said: Decodable, Sendable, Equatable {
        var at: String
        var name: String
        var message: String?
        var path: String?
        var to: String?
        var paths: [String]?
        var text: String?
        var error: String?
        var code: String?
        var version: String?
    }

    private final class Heard: Sendable {
        let lines = Mutex<[Said]>([])
        let rest = Mutex(Data())

        func hear(_ data: Data) {
            rest.withLock { rest in
                rest += data
                while let end = rest.firstIndex(of: 0x0A) {
                    let line = rest[rest.startIndex..<end]
                    if let said = try? JSONDecoder().decode(Said.self, from: Data(line)) {
                        lines.withLock { $0.append(said) }
                    }
                    rest = Data(rest[rest.index(after: end)...])
                }
            }
        }
    }

    private let child: ChildProcess
    private let input = Pipe()
    private let output = Pipe()
    private let heard = Heard()

    init(_ arguments: String..., environment: [String: String] = [:]) throws {
        child = try ChildProcess(
            Programs.path("turns-program"), arguments, environment: environment,
            input: input.fileHandleForReading.fileDescriptor,
            output: output.fileHandleForWriting.fileDescriptor, errors: 2)
        let heard = heard
        output.fileHandleForReading.readabilityHandler = { heard.hear($0.availableData) }
    }

    deinit {
        output.fileHandleForReading.readabilityHandler = nil
        child.killGroup()
    }

    var pid: pid_t { child.pid }
    var all: [Said] { heard.lines.withLock { $0 } }

    func tell(_ line: String) throws {
        try input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8))
    }

    /// Kills it with SIGKILL, for which it cannot prepare.
    func kill9() { child.killGroup() }

    func has(_ at: String, _ name: String, _ message: String? = nil) -> Said? {
        all.first {
            $0.at == at && $0.name == name && (message == nil || $0.message == message)
        }
    }

    @discardableResult
    func wait(_ at: String, _ name: String, _ message: String? = nil) throws -> Said {
        try Support.wait(for: "\(at) \(name) \(message ?? ""); it said: \(all)") {
            has(at, name, message)
        }
    }

    /// Requests a claim and waits until it is granted.
    @discardableResult
    func claim(_ name: String, _ words: String) throws -> Said {
        try tell("claim \(name) \(words)")
        return try wait("granted", name)
    }

    func end(_ name: String) throws {
        try tell("end \(name)")
        try wait("ended", name)
    }

    /// Runs a command about files and returns its result.
    @discardableResult
    func file(_ command: String) throws -> Said {
        let words = command.split(separator: " ").map(String.init)
        let count = all.count { $0.at == "done" && $0.name == words[0] }
        try tell(command)
        return try Support.wait(for: "\(command); it said: \(all)") {
            let done = all.filter { $0.at == "done" && $0.name == words[0] }
            return done.count > count ? done.last : nil
        }
    }

    /// Registers a presenter.
    func present(_ name: String, _ words: String) throws {
        try tell("present \(name) \(words)")
        try wait("presenting", name)
    }

    /// The messages that a presenter got, in order.
    func messages(_ name: String) -> [String] {
        all.filter { $0.at == "message" && $0.name == name }.compactMap(\.message)
    }

    /// Whether a claim is still waiting. Only time can show that, so this is false if it was
    /// granted meanwhile.
    func waits(_ name: String) -> Bool {
        usleep(150_000)
        return has("granted", name) == nil && has("ended", name) == nil
    }
}

/// Runs `body` with a mount that has these files; directories are made as needed.
func withTurns(_ files: [String], _ body: (String) throws -> Void) throws {
    try MountedVolume.with { volume in
        for file in files {
            let url = URL(filePath: "\(volume.path)/\(file)")
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data("old".utf8).write(to: url)
        }
        try body(volume.path)
    }
}
