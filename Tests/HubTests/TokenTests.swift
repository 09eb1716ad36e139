import Foundation
import HubProtocol
import Model
import Testing

/// How long tokens are valid, and which tokens a revocation ends.
@Suite struct TokenTests {
    private let day: Int64 = 86_400

    private func renewed(_ hub: RunningHub, _ token: String) async throws -> String {
        let reply = try await Wire.send(hub.url + Routes.selfToken, nil, token: token)
        let answer: TokenAnswer = try reply.decoded()
        #expect(answer.expires != nil)
        return answer.token
    }

    /// Returns whether the hub accepts the token.
    private func holds(_ hub: RunningHub, _ token: String) async throws -> Bool {
        try await Wire.send(hub.url + Routes.devices, method: "GET", nil, token: token).status
            == 200
    }

    private func split(_ hub: RunningHub, _ token: String) async throws -> EnrolAnswer {
        try await Wire.post(
            hub.url + Routes.selfSplit, SplitRequest(device: .random(), deviceName: "copy"),
            token: token)
    }

    @Test func whatCameFromATokenEndsWithItsDevice() async throws {
        try await RunningHub.with { hub in
            let (owner, stolen) = (try await hub.device(), try await hub.device())
            let thief = try await split(hub, stolen.token)
            let second = try await split(hub, thief.token)
            let renewed = try await renewed(hub, second.token)
            let removal = try await Wire.send(
                hub.url + Routes.device(stolen.id), method: "DELETE", nil, token: owner.token)
            #expect(removal.status == 200)
            for token in [stolen.token, thief.token, second.token, renewed] {
                #expect(try await !holds(hub, token))
            }
            #expect(try await holds(hub, owner.token))
        }
    }

    @Test func aDeviceWithACodeOfItsOwnStays() async throws {
        try await RunningHub.with { hub in
            let (one, other) = (try await hub.device(), try await hub.device())
            let copy = try await split(hub, one.token)
            let administration = try hub.administration()
            let code = try await administration.invite("anna")
            try administration.close()
            let own: EnrolAnswer = try await Wire.post(
                hub.url + Routes.enrol,
                EnrolRequest(code: code, deviceName: "own", device: copy.device), token: nil)
            _ = try await Wire.send(
                hub.url + Routes.device(one.id), method: "DELETE", nil, token: other.token)
            #expect(try await !holds(hub, copy.token))
            #expect(try await holds(hub, own.token))
        }
    }

    @Test func aTokenEndsUnlessItIsRenewed() async throws {
        try await RunningHub.with { hub in
            let (idle, busy) = (try await hub.device(), try await hub.device())
            var token = busy.token
            for _ in 0..<4 {
                hub.advance(seconds: 30 * day)
                token = try await renewed(hub, token)
            }
            #expect(try await !holds(hub, idle.token))
            #expect(try await holds(hub, token))
            hub.advance(seconds: 91 * day)
            #expect(try await !holds(hub, token))
        }
    }

    /// A hub without a battery starts with an old time, and gets the right one later.
    @Test func aTokenThatIsRenewedWithAClockBehindHoldsAfterwards() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            hub.advance(seconds: -100 * day)
            let token = try await renewed(hub, device.token)
            hub.advance(seconds: 100 * day)
            #expect(try await holds(hub, token))
            hub.advance(seconds: 91 * day)
            #expect(try await !holds(hub, token))
        }
    }

    @Test func aTokenEndsWhenTheOneThatReplacedItIsRenewed() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let first = try await renewed(hub, device.token)
            #expect(try await holds(hub, device.token))
            // The device stopped before it stored the new token, and was off for two months. If two
            // processes renew, the last one keeps the device.
            hub.advance(seconds: 60 * day)
            let second = try await renewed(hub, device.token)
            #expect(try await !holds(hub, first))
            #expect(try await holds(hub, device.token))
            let third = try await renewed(hub, second)
            #expect(try await !holds(hub, device.token))
            for token in [second, third] { #expect(try await holds(hub, token)) }
        }
    }

    /// A long answer consists of many parts, and its sender could wait as long as it likes.
    @Test func aRevokedDeviceGetsNoFurtherPartOfAnAnswer() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.save("a", bytes("secret"))
            let (ids, volume) = ([device.id(of: bytes("secret"))], device.volume.id)
            let caller = try await hub.hub.devices.caller(token: device.token)
            #expect(try await hub.hub.rows(of: ids[...], in: volume, for: caller).count == 1)
            let entry = device.directory("late")
            let request = device.request([entry])
            let administration = try hub.administration()
            _ = try await administration.revoke(device.id.description)
            let reading = try await failure {
                try await hub.hub.rows(of: ids[...], in: volume, for: caller)
            }
            let writing = try await failure {
                try await hub.hub.commit(request, to: volume, for: caller)
            }
            #expect(reading.code == .unauthenticated && writing.code == .unauthenticated)
        }
    }
}
