import ChunkStore
import Foundation
import Glibc
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Sync

/// Permissions belong to the contents that they were given to, also on the way to other devices.
@Suite("Permissions of versions that are sent", .serialized) struct VersionPermissionTests {
    private func mode(_ fleet: Fleet, _ index: Int, _ path: String) throws -> String {
        try Command("stat", "-c", "%a", "\(fleet.devices[index].path)/\(path)").succeed()
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Makes a change that is sent after everything before it, and waits until it has arrived.
    private func followUp(_ fleet: Fleet, _ name: String) throws {
        try fleet.shell(0, "mv next* \(name)")
        try wait(seconds: 60, for: "\(name) on the other device") {
            try fleet.names(1).contains(name) ? true : nil
        }
    }

    @Test("what was private stays private while the open version after it is refused")
    func refused() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "umask 077; echo secret > f; echo 1 > next")
            try fleet.expectEqual()
            #expect(try mode(fleet, 1, "f") == "600")
            // The hub takes the chunks, and refuses the version that needs them.
            try fleet.hub.run("user", "quota", "ann", "1")
            try fleet.shell(0, "echo open > new; chmod 644 new; mv new f")
            try wait(seconds: 60, for: "the device to say why") {
                let problems = try fleet.report(fleet.devices[0]).hub?.problems ?? [:]
                return problems["f"]?.contains("quota") == true ? true : nil
            }
            try followUp(fleet, "next2")
            #expect(fleet.text(1, "f") == "secret\n")
            #expect(try mode(fleet, 1, "f") == "600")
            try fleet.hub.run("user", "quota", "ann", "none")
            try wait(seconds: 300, for: "the open version") {
                fleet.text(1, "f") == "open\n" ? true : nil
            }
            try fleet.expectEqual()
            #expect(try mode(fleet, 1, "f") == "644")
            #expect(try fleet.report(fleet.devices[0]).hub?.problems ?? [:] == [:])
        }
    }

    @Test("permissions that were given to contents which are still written wait for them")
    func written() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "umask 077; echo secret > f; echo 1 > next")
            try fleet.expectEqual()
            let writer = try OpenFile("\(fleet.devices[0].path)/f", O_RDWR | O_TRUNC)
            try writer.write("open\n")
            try fleet.shell(0, "chmod 644 f")
            try followUp(fleet, "next2")
            try followUp(fleet, "next3")
            #expect(fleet.text(1, "f") == "secret\n")
            #expect(try mode(fleet, 1, "f") == "600")
            writer.close()
            try wait(seconds: 60, for: "the open version") {
                fleet.text(1, "f") == "open\n" ? true : nil
            }
            try fleet.expectEqual()
            #expect(try mode(fleet, 1, "f") == "644")
        }
    }

    @Test("contents and the permissions given to them are one group, and nothing else is")
    func groups() {
        let (item, other) = (Identifier(high: 1, low: 1), Identifier(high: 1, low: 2))
        let packaged = Identifier(high: 1, low: 3)
        let moment = Moment(time: 0, device: .root)
        let edit = Change.edit(
            Revision(
                id: .root, parents: [], content: .sha256([UInt8](repeating: 1, count: 1)), size: 1,
                moment: moment))
        let mode = Change.attribute("mode", [1, 0xA4])
        let owner = Change.attribute("owner", nil)
        let label = Change.attribute("x:user.label", [1])
        func groups(_ changes: [(Identifier, Change)]) -> [OperationGroup?] {
            let operations = changes.enumerated().map { index, change in
                Operation(
                    id: OperationID(device: .root, epoch: 1, number: UInt64(index)),
                    item: change.0, moment: moment, base: 0, change: change.1)
            }
            return operations.groups(ofPackages: [packaged: .package(7)])
        }
        #expect(
            groups([(item, mode), (item, edit), (item, mode), (item, owner), (other, mode)])
                == [nil, .item(1), .item(1), .item(1), nil])
        #expect(
            groups([(item, edit), (item, edit), (item, mode), (other, edit), (other, mode)])
                == [.item(0), .item(0), .item(0), .item(3), .item(3)])
        #expect(
            groups([(item, edit), (item, mode), (item, label), (other, edit), (other, label)])
                == [.item(0), .item(0), nil, nil, nil])
        #expect(
            groups([(item, edit), (packaged, edit), (packaged, mode), (item, mode)])
                == [nil, .package(7), .package(7), nil])
        #expect(groups([(item, edit), (other, mode), (item, mode)]) == [nil, nil, nil])
        #expect(OperationGroup.item(3).number != OperationGroup.package(3).number)
    }
    @Test("permissions are in one request with their contents, however long the manifest is")
    func requests() {
        func size(_ manifests: [Int?]) -> Int {
            var size = RequestSize()
            return manifests.prefix { bytes in
                size.add(
                    bytes.map {
                        RevisionContent(manifest: [UInt8](repeating: 0, count: $0), chunks: [])
                    })
            }.count
        }
        #expect(size([5 << 20, nil, nil, 1, nil]) == 3)
        #expect(size([1, nil, 5 << 20, nil]) == 2)
        #expect(size([3 << 20, nil, 1 << 20, nil]) == 4)
        #expect(size(Array(repeating: nil, count: 5_000)) == HubLimits.operations)
    }
}
