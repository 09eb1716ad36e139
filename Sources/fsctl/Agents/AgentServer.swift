import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// A server of the Model Context Protocol: JSON-RPC 2.0, one message a line, on standard input and
/// output. Requests are answered one after the other, in order.
struct AgentServer {
    /// The revisions of the protocol that this server can speak, the newest first. What it does is
    /// the same in all of them.
    static let revisions = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
    /// The largest length of a line, in bytes. A longer line is skipped and refused.
    static let lineMax = 64 << 20

    private struct Failure: Error {
        var code: Int64
        var message: String

        static func invalid(_ message: String) -> Failure {
            Failure(code: -32600, message: message)
        }
    }

    let tools: AgentTools
    private var isInitialized = false

    init(tools: AgentTools) { self.tools = tools }

    /// Returns at the end of the input.
    mutating func run() {
        var line: [UInt8] = []
        var isTooLong = false
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(0, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            for part in piece[..<count].split(
                separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false
            ).enumerated() {
                if part.offset > 0 {
                    if isTooLong {
                        refuse(nil, .invalid("a message has at most \(Self.lineMax) bytes"))
                    } else if !line.isEmpty {
                        hear(line)
                    }
                    (line, isTooLong) = ([], false)
                }
                if line.count + part.element.count > Self.lineMax {
                    (line, isTooLong) = ([], true)
                } else if !isTooLong {
                    line += part.element
                }
            }
        }
    }

    private mutating func hear(_ line: [UInt8]) {
        guard let message = try? value(JSONValue.self, from: line) else {
            return refuse(nil, Failure(code: -32700, message: "the line is not JSON"))
        }
        let id = message["id"]
        // An answer is ignored, because this server never sends a request that could be answered.
        if message["method"] == nil, message["result"] != nil || message["error"] != nil { return }
        guard case .object = message, message["jsonrpc"] == "2.0",
            let method = message["method"]?.text
        else {
            return refuse(id, .invalid("this is not a JSON-RPC 2.0 request"))
        }
        // A notification gets no answer.
        guard let id else { return }
        switch id {
        case .text, .integer: break
        default: return refuse(nil, .invalid("an id is a text or an integer"))
        }
        do throws(Failure) {
            say(["jsonrpc": "2.0", "id": id, "result": try answer(method, message["params"])])
        } catch {
            refuse(id, error)
        }
    }

    private mutating func answer(_ method: String, _ parameters: JSONValue?) throws(Failure)
        -> JSONValue
    {
        switch method {
        case "initialize":
            isInitialized = true
            let wanted = parameters?["protocolVersion"]?.text ?? ""
            let revision = Self.revisions.contains(wanted) ? wanted : Self.revisions[0]
            return [
                "protocolVersion": .text(revision), "capabilities": ["tools": [:]],
                "serverInfo": ["name": "concord", "version": "0.1"],
                "instructions": .text(AgentTools.instructions),
            ]
        case "ping": return [:]
        case _ where !isInitialized: throw .invalid("the first request is initialize")
        case "tools/list": return ["tools": .list(AgentTool.allCases.map(\.description))]
        case "tools/call":
            guard let name = parameters?["name"]?.text, let tool = AgentTool(rawValue: name) else {
                let name = parameters?["name"]?.text ?? ""
                throw Failure(code: -32602, message: "Unknown tool: \(name)")
            }
            let arguments = parameters?["arguments"] ?? [:]
            if let objection = tool.objection(to: arguments) {
                throw Failure(code: -32602, message: objection)
            }
            return result(of: tool, arguments)
        default: throw Failure(code: -32601, message: "Method not found: \(method)")
        }
    }

    /// The failure of a tool is part of its result, because the model is shown the result.
    private func result(of tool: AgentTool, _ arguments: JSONValue) -> JSONValue {
        do throws(VolumeError) {
            let outcome = try tools.call(tool, arguments)
            return [
                "content": [["type": "text", "text": .text(outcome.text)]],
                "structuredContent": outcome.value, "isError": false,
            ]
        } catch {
            let text = "\(error.code.rawValue): \(error.message)"
            return ["content": [["type": "text", "text": .text(text)]], "isError": true]
        }
    }

    private func refuse(_ id: JSONValue?, _ failure: Failure) {
        say([
            "jsonrpc": "2.0", "id": id ?? .null,
            "error": ["code": .integer(failure.code), "message": .text(failure.message)],
        ])
    }

    private func say(_ message: JSONValue) {
        let line = json(message) + [UInt8(ascii: "\n")]
        var done = 0
        while done < line.count {
            let count = line.withUnsafeBytes { write(1, $0.baseAddress! + done, $0.count - done) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            done += count
        }
    }
}
