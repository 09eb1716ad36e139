import Foundation
import Hub
import HubProtocol
import Model
import Support
import Testing

/// The API description is complete. A schema fuzzer (schemathesis) has checked that the hub follows
/// it.
struct DescriptionTests {
    private func description(_ hub: RunningHub) async throws -> [String: Any] {
        let reply = try await Wire.send(
            hub.url + Routes.description, method: "GET", nil, token: nil)
        let object = try JSONSerialization.jsonObject(with: Data(try reply.checked()))
        return try #require(object as? [String: Any])
    }

    @Test func everyCallIsDescribed() async throws {
        try await RunningHub.with { hub in
            let description = try await description(hub)
            #expect(description["openapi"] as? String == "3.1.0")
            let paths = try #require(description["paths"] as? [String: [String: Any]])
            for call in VolumeCall.allCases {
                #expect(paths["/v1/volumes/{volume}/\(call.rawValue)"] != nil, "\(call)")
            }
            let device = try await hub.device()
            let methods = ["get", "put", "post", "delete", "patch", "options"]
            for (path, operations) in paths {
                let real = path.replacing("{volume}", with: device.volume.id.description)
                    .replacing("{device}", with: Identifier.random().description)
                for method in methods where operations[method] == nil {
                    let reply = try await Wire.send(
                        hub.url + real, method: method.uppercased(), nil, token: device.token)
                    #expect(reply.status == 405, "\(method) \(path)")
                }
            }
        }
    }

    @Test func everyReferenceLeadsSomewhere() async throws {
        try await RunningHub.with { hub in
            let description = try await description(hub)
            func look(_ value: Any) {
                if let object = value as? [String: Any] {
                    if let reference = object["$ref"] as? String {
                        var found: Any? = description
                        for part in reference.split(separator: "/").dropFirst() {
                            found = (found as? [String: Any])?[String(part)]
                        }
                        #expect(found != nil, "\(reference)")
                    }
                    for value in object.values { look(value) }
                } else if let list = value as? [Any] {
                    for value in list { look(value) }
                }
            }
            look(description)
        }
    }

    @Test func everyFailureIsDescribed() async throws {
        try await RunningHub.with { hub in
            let description = try await description(hub)
            let text = String(
                decoding: try JSONSerialization.data(withJSONObject: description), as: UTF8.self)
            for code in Failure.Code.allCases { #expect(text.contains("\"\(code.rawValue)\"")) }
        }
    }

    @Test func healthAndMetricsAreForAll() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.save("x", bytes("x"))
            let health = try await Wire.send(
                hub.url + Routes.health, method: "GET", nil, token: nil)
            #expect(health.body == bytes("{\"status\":\"ok\"}"))
            let reply = try await Wire.send(
                hub.url + Routes.metrics, method: "GET", nil, token: nil)
            let text = String(decoding: try reply.checked(), as: UTF8.self)
            #expect(text.contains("\nconcord_hub_operations_total 1\n"))
            #expect(text.contains("\nconcord_hub_volumes 1\n"))
            let route = "route=\"/v1/volumes/{volume}/commit\",status=\"200\""
            #expect(text.contains("concord_hub_request_seconds_count{\(route)} 1\n"))
            #expect(text.contains("\nconcord_hub_commit_seconds_count 1\n"))
            #expect(text.contains("\nconcord_hub_commit_wait_seconds_bucket{le=\"+Inf\"} 1\n"))
            #expect(text.contains("\nconcord_hub_fan_out_seconds_count 0\n"))
            let shown = try Self.metricsOfDashboard()
            #expect(shown.count > 15)
            for name in shown {
                #expect(text.contains("\n\(name) ") || text.contains("\n\(name){"), "\(name)")
            }
        }
    }

    /// The metrics that the dashboard in Packaging asks for.
    private static func metricsOfDashboard() throws -> Set<String> {
        let root = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let text = try String(
            contentsOf: root.appending(path: "Packaging/grafana/concord-hub.json"), encoding: .utf8)
        return Set(text.matches(of: /concord_hub_[a-z_]+/).map { String($0.output) })
    }
}
