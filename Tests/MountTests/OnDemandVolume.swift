import CLinux
import Foundation
import Glibc
import Support

/// A volume mounted by `contents-program`, whose hub is a directory that a test can damage.
final class OnDemandVolume {
    let path: String
    let store: String
    let hub: String
    private let home: TemporaryDirectory
    private let options: [String]
    private var child: ChildProcess?
    private var toInput: Int32 = -1
    private var heard = 0

    init(store: String? = nil, options: [String] = []) throws {
        home = try TemporaryDirectory("ondemand")
        path = "\(home.path)/mount"
        self.store = store ?? "\(home.path)/store"
        hub = "\(home.path)/hub"
        self.options = options
        for directory in [path, hub] {
            try FileManager.default.createDirectory(
                atPath: directory, withIntermediateDirectories: true)
        }
        try mount()
    }

    /// Mounts a volume while `body` runs.
    static func with(
        _ options: String..., store: String? = nil, body: (OnDemandVolume) throws -> Void
    ) throws {
        let volume = try OnDemandVolume(store: store, options: options)
        do {
            try body(volume)
            try volume.unmount()
        } catch {
            let said = volume.said
            volume.cleanUp()
            throw SupportError("\(error)\nIt said:\n\(said)")
        }
    }

    deinit { cleanUp() }

    var pid: pid_t { child?.pid ?? 0 }
    var said: String { (try? String(contentsOfFile: log, encoding: .utf8)) ?? "" }
    private var log: String { "\(home.path)/said" }

    func mount() throws {
        var ends: [Int32] = [0, 0]
        guard cl_pipe(&ends) == 0 else { throw SupportError("cannot make a pipe") }
        let output = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0o600)
        defer {
            close(output)
            close(ends[0])
        }
        toInput = ends[1]
        heard = 0
        child = try ChildProcess(
            Programs.path("contents-program"), [store, path, hub] + options,
            directory: "/", input: ends[0], output: output, errors: output)
        _ = try hear()
        try wait(seconds: 20, for: "the mount at \(path)") {
            var status = stat()
            var above = stat()
            return stat(path, &status) == 0 && stat(home.path, &above) == 0
                && status.st_dev != above.st_dev ? true : nil
        }
    }

    private func hear() throws -> String {
        let line = try wait(seconds: 60, for: "an answer; it said: \(said)") { () -> String? in
            if child?.hasEnded() == true { throw SupportError("it has ended: \(said)") }
            let answers = said.split(separator: "\n", omittingEmptySubsequences: false)
                .dropLast().filter {
                    $0 == "ready" || $0.hasPrefix("ok ") || $0.hasPrefix("error ")
                }
            return answers.count > heard ? String(answers[heard]) : nil
        }
        heard += 1
        return line
    }

    /// Sends a command and returns the answer.
    @discardableResult
    func tell(_ words: String...) throws -> String {
        let bytes = Array((words.joined(separator: " ") + "\n").utf8)
        _ = write(toInput, bytes, bytes.count)
        return try hear()
    }

    /// Sends a command and does not wait for the answer.
    func begin(_ words: String...) {
        let bytes = Array((words.joined(separator: " ") + "\n").utf8)
        _ = write(toInput, bytes, bytes.count)
    }

    /// Sends a command, which must succeed.
    @discardableResult
    func order(_ words: String...) throws -> String {
        let bytes = Array((words.joined(separator: " ") + "\n").utf8)
        _ = write(toInput, bytes, bytes.count)
        let answer = try hear()
        guard answer.hasPrefix("ok ") else { throw SupportError("\(words): \(answer)") }
        return String(answer.dropFirst(3))
    }

    func unmount() throws {
        guard let child else { return }
        close(toInput)
        toInput = -1
        let status = try child.waitForEnd(seconds: 60)
        self.child = nil
        if status != 0 { throw SupportError("it ended with \(status): \(said)") }
    }

    func kill9() throws {
        child?.send(SIGKILL)
        _ = try child?.waitForEnd(seconds: 30)
        child = nil
        if toInput >= 0 { close(toInput) }
        toInput = -1
        while (try? MountTable.isMounted(path)) == true {
            if umount2(path, Int32(MNT_DETACH)) != 0 { break }
        }
    }

    func cleanUp() {
        if toInput >= 0 { close(toInput) }
        toInput = -1
        while (try? MountTable.isMounted(path)) == true {
            if umount2(path, Int32(MNT_DETACH)) != 0 { break }
        }
        if let child, (try? child.waitForEnd(seconds: 5)) == nil { child.killGroup() }
        child = nil
    }

    // MARK: The hub

    /// Sets what is wrong with the hub; nil ends that.
    func set(_ name: String, _ text: String? = "") throws {
        if let text {
            try text.write(toFile: "\(hub)/\(name)", atomically: true, encoding: .utf8)
        } else {
            try? FileManager.default.removeItem(atPath: "\(hub)/\(name)")
        }
    }

    /// The requests since `forgetLog`.
    var asked: [String] {
        let text = (try? String(contentsOfFile: "\(hub)/log", encoding: .utf8)) ?? ""
        return text.split(separator: "\n").map(String.init)
    }

    func forgetLog() throws { try set("log", nil) }

    /// How many bytes it has sent.
    var given: Int {
        asked.filter { $0.hasPrefix("chunk ") }.reduce(0) { $0 + (Int($1.dropFirst(6)) ?? 0) }
    }

    // MARK: Documents

    /// Makes a document whose random bytes only the hub has, and returns the bytes.
    @discardableResult
    func absent(_ name: String, bytes count: Int) throws -> Data {
        var bytes = Data(count: count)
        bytes.withUnsafeMutableBytes { arc4random_buf($0.baseAddress!, count) }
        try bytes.write(to: URL(filePath: "\(path)/\(name)"))
        try order("keep", name)
        try order("evict", name)
        guard try order("dataless", name) == "true" else { throw SupportError("still here") }
        try forgetLog()
        return bytes
    }

    func read(_ name: String) throws -> Data {
        try Data(contentsOf: URL(filePath: "\(path)/\(name)"))
    }
}
