import Foundation
import HubProtocol
import Model
import Support
import Synchronization
import Testing

/// A lie that is a valid state cannot be recognized when it is told. What the device believes then
/// about the identity of items and versions contradicts the hub's later answers, and the device
/// comes out of it. Found by `LyingFuzzTests`.
@Suite("A hub that lies about what is what", .serialized) struct FalseIdentityTests {
    /// A fleet of one device, and another device whose hub can lie.
    private func withLiar(_ body: (Fleet, LyingHub, MountedVolume) throws -> Void) throws {
        try Fleet.with(1) { fleet in
            let liar = try LyingHub(before: fleet.hub)
            defer { liar.stop() }
            let device = try MountedVolume(options: ["name=team"])
            defer { device.cleanUp() }
            try Programs.fsctl(
                "signin", liar.address, "--code", try fleet.hub.invite(), "--at", device.path
            ).succeed()
            try body(fleet, liar, device)
            try device.unmount()
        }
    }

    private func page(
        _ change: @escaping @Sendable (inout ChangesAnswer) -> Void
    ) -> LyingHub.Lie {
        { path, bytes in
            guard path.contains("/changes"), var page = ChangesAnswer(packed: bytes) else {
                return nil
            }
            change(&page)
            return page.packed
        }
    }

    /// The hub says that the items of a name have this id.
    private func renamed(_ name: String, _ id: Identifier) -> LyingHub.Lie {
        page { page in
            page.changes = page.changes.map { entry in
                guard case .item(var state) = entry, state.placement.name == name else {
                    return entry
                }
                state.id = id
                return .item(state)
            }
        }
    }

    private func text(_ name: String, of device: MountedVolume) -> String? {
        try? String(contentsOfFile: "\(device.path)/\(name)", encoding: .utf8)
    }

    private func wait(_ name: String, _ text: String, of device: MountedVolume) throws {
        try Support.wait(seconds: 60, for: "\(text) in \(name); \(device.said)") {
            self.text(name, of: device) == text ? true : nil
        }
    }

    private func write(_ name: String, _ text: String, of device: MountedVolume) throws {
        try Data(text.utf8).write(to: URL(filePath: "\(device.path)/\(name)"))
    }

    /// Makes the device compare everything with the hub, which tells the truth again afterwards.
    private func compare(_ fleet: Fleet, _ liar: LyingHub, _ device: MountedVolume) throws {
        liar.lie(page { $0.deviceEpoch = 77 })
        try fleet.put(0, "compared", "\(Date())")
        try Support.wait(seconds: 60, for: "a comparison; \(device.said)") {
            device.said.contains("comparing everything") ? true : nil
        }
        liar.lie(nil)
    }

    /// The names in both trees are these, and nothing waits.
    private func expect(
        _ names: [String], _ fleet: Fleet, _ device: MountedVolume
    ) throws {
        let names = names.sorted()
        var last = ""
        try Support.wait(seconds: 60, for: "\(names), not \(last); \(device.said)") { () -> Bool? in
            let hub = try fleet.report(device).hub
            let all = try [device, fleet.devices[0]].map {
                try FileManager.default.contentsOfDirectory(atPath: $0.path).sorted()
            }
            last = "\(all) \(hub.map { "\($0)" } ?? "")"
            let isStill = hub?.unsent == 0 && hub?.sending == 0 && hub?.due == 0
            return isStill && hub?.problems.isEmpty == true && all == [names, names] ? true : nil
        }
    }

    @Test("an item under another id is the hub's item again after a comparison")
    func comparedAfterwards() throws {
        try withLiar { fleet, liar, device in
            liar.lie(renamed("theirs", .random()))
            try fleet.put(0, "theirs", "first")
            try wait("theirs", "first", of: device)
            liar.lie(nil)
            try compare(fleet, liar, device)
            try write("answer", "answer", of: device)
            try Support.wait(seconds: 60, for: "the answer; \(device.said)") {
                fleet.text(0, "answer") == "answer" ? true : nil
            }
            try fleet.put(0, "theirs", "second")
            try wait("theirs", "second", of: device)
            try expect(["theirs", "compared", "answer"], fleet, device)
        }
    }

    @Test("an item under another id gets the hub's later changes")
    func changedThere() throws {
        try withLiar { fleet, liar, device in
            liar.lie(renamed("theirs", .random()))
            try fleet.put(0, "theirs", "first")
            try wait("theirs", "first", of: device)
            liar.lie(nil)
            try fleet.put(0, "theirs", "second")
            try wait("theirs", "second", of: device)
            try write("theirs", "third", of: device)
            try Support.wait(seconds: 60, for: "the third; \(device.said)") {
                fleet.text(0, "theirs") == "third" ? true : nil
            }
            try expect(["theirs"], fleet, device)
        }
    }

    @Test("a change of an item that the hub does not know arrives at the item that it is")
    func changedHere() throws {
        try withLiar { fleet, liar, device in
            liar.lie(renamed("theirs", .random()))
            try fleet.put(0, "theirs", "first")
            try fleet.put(0, "other", "other")
            try wait("theirs", "first", of: device)
            liar.lie(nil)
            try write("theirs", "second", of: device)
            try Support.wait(seconds: 60, for: "the second; \(device.said)") {
                fleet.text(0, "theirs") == "second" ? true : nil
            }
            #expect(device.said.contains("does not know"))
            try wait("other", "other", of: device)
            try expect(["theirs", "other"], fleet, device)
        }
    }

    @Test("an item whose version the hub has elsewhere is sent with a version of its own")
    func anotherItemsVersion() throws {
        try withLiar { fleet, liar, device in
            liar.lie(renamed("theirs", .random()))
            try fleet.put(0, "theirs", "first")
            try wait("theirs", "first", of: device)
            liar.lie(nil)
            // The device hears nothing more of the item, so that it sends its own.
            let hasBegun = Mutex(false)
            liar.lie(
                page { page in
                    page.changes.removeAll { entry in
                        guard case .item(let state) = entry else { return false }
                        return state.placement.name == "theirs"
                    }
                    if !hasBegun.withLock({ $0 }) { page.deviceEpoch = 77 }
                    hasBegun.withLock { $0 = true }
                })
            try fleet.put(0, "compared", "compared")
            try Support.wait(seconds: 60, for: "a version of its own; \(device.said)") {
                device.said.contains("has the version already") ? true : nil
            }
            try write("answer", "answer", of: device)
            try Support.wait(seconds: 60, for: "the answer; \(device.said)") {
                fleet.text(0, "answer") == "answer" ? true : nil
            }
            liar.lie(nil)
            try fleet.put(0, "theirs", "second")
            try wait("theirs", "second", of: device)
            try expect(["theirs", "compared", "answer"], fleet, device)
        }
    }

    @Test("a version of two items is refused with the second one")
    func aVersionOfTwoItems() throws {
        try withLiar { fleet, liar, device in
            try fleet.put(0, "one", "one")
            try wait("one", "one", of: device)
            let version = Identifier.random()
            for name in ["two", "three"] {
                liar.lie(
                    page { page in
                        page.changes = page.changes.map { entry in
                            guard case .item(var state) = entry, state.placement.name == name
                            else { return entry }
                            state.current?.id = version
                            return .item(state)
                        }
                    })
                try fleet.put(0, name, name)
                try Support.wait(seconds: 60, for: "\(name); \(device.said)") {
                    liar.told > 0 ? true : nil
                }
            }
            try Support.wait(seconds: 60, for: "the refusal; \(device.said)") {
                let problems = try fleet.report(device).hub?.problems.values ?? [:].values
                return problems.contains { $0.contains("another item") } ? true : nil
            }
            liar.lie(nil)
            for name in ["one", "two", "three"] {
                try fleet.put(0, name, "again")
                try wait(name, "again", of: device)
            }
            try expect(["one", "two", "three"], fleet, device)
        }
    }
}
