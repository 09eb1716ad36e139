import Foundation
import Glibc
import Support
import Testing

/// An agent's side of `fsctl mcp`, by the lines that it exchanges with it.
private final class Agent {
    private let server: Beside
    private var last = 0

    init(_ folder: String) throws {
        server = try Beside("mcp", folder)
        let hello = try ask(
            "initialize",
            ["protocolVersion": "2025-06-18", "capabilities": [:], "clientInfo": ["name": "test"]])
        try #require(hello["protocolVersion"] as? String == "2025-06-18")
        tell(["jsonrpc": "2.0", "method": "notifications/initialized"])
    }

    func end() throws {
        server.send(SIGTERM)
        _ = try server.waitForEnd()
    }

    func tell(_ message: [String: Any]) {
        let line = try! JSONSerialization.data(withJSONObject: message)
        server.tell(String(decoding: line, as: UTF8.self))
    }

    func tell(line: String) { server.tell(line) }

    /// The answers that have come, in order.
    private var answers: [[String: Any]] {
        server.said.split(separator: "\n").compactMap {
            try? JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]
        }
    }

    /// The whole answer to a request with that id; nil: the last one that names no request.
    func answer(to id: Int?) throws -> [String: Any] {
        try wait(for: "an answer to \(id.map(String.init) ?? "a line")") {
            answers.last { id == nil ? $0["id"] is NSNull : $0["id"] as? Int == id }
        }
    }

    func error(_ method: String, _ parameters: [String: Any] = [:]) throws -> Int {
        let answer = try send(method, parameters)
        return try #require((answer["error"] as? [String: Any])?["code"] as? Int, "\(answer)")
    }

    func ask(_ method: String, _ parameters: [String: Any] = [:]) throws -> [String: Any] {
        let answer = try send(method, parameters)
        return try #require(answer["result"] as? [String: Any], "\(answer)")
    }

    private func send(_ method: String, _ parameters: [String: Any]) throws -> [String: Any] {
        last += 1
        tell(["jsonrpc": "2.0", "id": last, "method": method, "params": parameters])
        return try answer(to: last)
    }

    /// What a tool answers; an error is thrown.
    @discardableResult
    func use(_ tool: String, _ arguments: [String: Any] = [:]) throws -> [String: Any] {
        let result = try ask("tools/call", ["name": tool, "arguments": arguments])
        let content = try #require((result["content"] as? [[String: Any]])?.first)
        #expect(content["type"] as? String == "text")
        guard result["isError"] as? Bool == false else {
            throw SupportError(content["text"] as? String ?? "")
        }
        return try #require(result["structuredContent"] as? [String: Any])
    }

    /// What a tool that fails says.
    func failure(_ tool: String, _ arguments: [String: Any] = [:]) throws -> String {
        do {
            return "it answered \(try use(tool, arguments))"
        } catch let error as SupportError {
            return error.description
        }
    }
}

@Suite("Agents") struct AgentTests {
    private func with(_ body: (MountedVolume, Agent) throws -> Void) throws {
        try MountedVolume.with { volume in
            try FileManager.default.createDirectory(
                atPath: "\(volume.path)/docs", withIntermediateDirectories: true)
            try put("one\ntwo\nthree\nfour\nfive\n", volume, "docs/a.txt")
            try volume.waitForDisk()
            let agent = try Agent("\(volume.path)/docs")
            do {
                try body(volume, agent)
                try agent.end()
            } catch {
                try? agent.end()
                throw error
            }
        }
    }

    private func put(_ text: String, _ volume: MountedVolume, _ path: String) throws {
        try Data(text.utf8).write(to: URL(filePath: "\(volume.path)/\(path)"))
    }

    private func text(_ volume: MountedVolume, _ path: String) throws -> String {
        try String(contentsOfFile: "\(volume.path)/\(path)", encoding: .utf8)
    }

    @Test("the protocol: methods, errors, schemas") func messages() throws {
        try with { _, agent in
            #expect(try agent.ask("ping").isEmpty)
            let tools = try #require(try agent.ask("tools/list")["tools"] as? [[String: Any]])
            let names = Set(tools.compactMap { $0["name"] as? String })
            #expect(
                names == [
                    "list", "read", "write", "claim", "release", "versions", "conflicts", "merge",
                    "resolve", "rewind", "restore",
                ])
            for tool in tools {
                let schema = try #require(tool["inputSchema"] as? [String: Any])
                #expect(schema["type"] as? String == "object")
            }
            #expect(try agent.error("tools/none") == -32601)
            #expect(try agent.error("tools/call", ["name": "none"]) == -32602)
            #expect(try agent.error("tools/call", ["name": "read", "arguments": [:]]) == -32602)
            let wrong: [String: Any] = ["name": "read", "arguments": ["path": 7]]
            #expect(try agent.error("tools/call", wrong) == -32602)
            agent.tell(line: "{")
            let answer = try agent.answer(to: nil)
            #expect((answer["error"] as? [String: Any])?["code"] as? Int == -32700)
            #expect(try agent.ask("ping").isEmpty)
        }
    }

    @Test("a write from a version that is current is saved") func write() throws {
        try with { volume, agent in
            let read = try agent.use("read", ["path": "a.txt"])
            #expect(read["text"] as? String == "one\ntwo\nthree\nfour\nfive\n")
            let base = try #require(read["version"] as? String)
            let saved = try agent.use("write", ["path": "a.txt", "text": "new\n", "base": base])
            #expect(saved["outcome"] as? String == "saved")
            #expect(try text(volume, "docs/a.txt") == "new\n")
            #expect(try agent.use("read", ["path": "a.txt"])["version"] as? String != base)
            let old = try agent.use("read", ["path": "a.txt", "version": base])
            #expect(old["text"] as? String == "one\ntwo\nthree\nfour\nfive\n")

            let made = try agent.use("write", ["path": "b.txt", "text": "b"])
            #expect(made["outcome"] as? String == "created")
            #expect(try agent.failure("write", ["path": "b.txt", "text": "c"]).contains("read it"))
            #expect(try text(volume, "docs/b.txt") == "b")
            let list = try #require(try agent.use("list")["entries"] as? [[String: Any]])
            #expect(list.compactMap { $0["name"] as? String } == ["a.txt", "b.txt"])
        }
    }

    @Test("a write from an old version is merged, or both versions live") func stale() throws {
        try with { volume, agent in
            let read = try agent.use("read", ["path": "a.txt"])
            let base = try #require(read["version"] as? String)
            try put("ONE\ntwo\nthree\nfour\nfive\n", volume, "docs/a.txt")
            let merged = try agent.use(
                "write", ["path": "a.txt", "text": "one\ntwo\nthree\nfour\nFIVE\n", "base": base])
            #expect(merged["outcome"] as? String == "merged")
            #expect(try text(volume, "docs/a.txt") == "ONE\ntwo\nthree\nfour\nFIVE\n")

            let other = try agent.use(
                "write", ["path": "a.txt", "text": "uno\ntwo\nthree\nfour\nfive\n", "base": base])
            #expect(other["outcome"] as? String == "conflict")
            #expect((other["conflicts"] as? [Any])?.count == 1)
            #expect(try text(volume, "docs/a.txt").hasPrefix("uno"))
            let conflicts = try agent.use("conflicts")["documents"] as? [[String: Any]]
            #expect(conflicts?.count == 1)
            try agent.use("resolve", ["path": "a.txt", "keep": "current"])
            let left = try agent.use("conflicts")["documents"] as? [[String: Any]]
            #expect(left?.isEmpty == true)
        }
    }

    @Test("nothing outside the served folder is reached") func confinement() throws {
        try with { volume, agent in
            try put("secret", volume, "outside")
            for (name, target) in [("up", "../outside"), ("etc", "/etc/hostname"), ("dir", "/etc")]
            {
                try FileManager.default.createSymbolicLink(
                    atPath: "\(volume.path)/docs/\(name)", withDestinationPath: target)
            }
            for path in [
                "../outside", "/etc/hostname", "up", "etc", "dir/hostname", "./a.txt", "a\0",
            ] {
                let said = try agent.failure("read", ["path": path])
                #expect(said.contains("served folder"), "\(path): \(said)")
                let wrote = try agent.failure("write", ["path": path, "text": "x", "base": "1"])
                #expect(wrote.contains("served folder"), "\(path): \(wrote)")
            }
            #expect(try text(volume, "outside") == "secret")
        }
    }

    @Test("a claim makes others wait until it is released") func claims() throws {
        try with { volume, agent in
            let claim = try agent.use("claim", ["path": "a.txt", "access": "write"])
            let number = try #require(claim["claim"] as? Int)
            let locks = try Command(Programs.fsctl, "locks", "--json", volume.path).succeed()
            #expect(locks.contains("a.txt"))
            try agent.use("release", ["claim": number])
            #expect(try agent.failure("release", ["claim": number]).contains("no claim"))
            let after = try Command(Programs.fsctl, "locks", "--json", volume.path).succeed()
            #expect(!after.contains("a.txt"))
        }
    }

    @Test("what a session did is undone, after a preview") func rewind() throws {
        try with { volume, agent in
            let script = "export CONCORD_SESSION=bot; exec bash -c 'echo bad > docs/a.txt'"
            var command = Command("/bin/bash", "-ec", script)
            command.directory = volume.path
            try command.succeed()
            try volume.waitForDisk()
            let preview = try agent.use("rewind", ["by": "bot", "dry_run": true])
            #expect((preview["text"] as? String)?.contains("a.txt") == true)
            #expect(try text(volume, "docs/a.txt") == "bad\n")
            try agent.use("rewind", ["by": "bot"])
            #expect(try text(volume, "docs/a.txt").hasPrefix("one"))
        }
    }
}
