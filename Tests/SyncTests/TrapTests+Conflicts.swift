import Foundation
import Glibc
import Support
import Testing

@testable import Sync

extension TrapTests {
    @Test(
        "16: device and hub are suspended while programs wait for bytes",
        .enabled(if: HubProcess.isEmbedded, "A balancer ends what waits for a silent hub."))
    func suspended() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(
                0, "head -c 6000000 /dev/urandom > large; head -c 9000 /dev/urandom > small")
            try fleet.settle()
            try fleet.join()
            try fleet.settle()
            let home = try TemporaryDirectory("suspended")
            fleet.hub.send(SIGSTOP)
            defer { fleet.hub.send(SIGCONT) }
            // One program waits in open(2), the other one in read(2).
            let names = ["small", "large"]
            let cats = try names.map {
                try Reading("\(fleet.devices[1].path)/\($0)", to: "\(home.path)/\($0)")
            }
            for cat in cats { try cat.waitUntilItWaits() }
            try fleet.devices[1].suspend()
            sleep(2)
            fleet.devices[1].resume()
            // A program that is stopped for a moment in open(2) notices nothing.
            let stopped = try Reading("\(fleet.devices[1].path)/small")
            try stopped.waitUntilItWaits()
            stopped.send(SIGSTOP)
            sleep(1)
            stopped.send(SIGCONT)
            fleet.hub.send(SIGCONT)
            for (name, cat) in zip(names, cats) {
                #expect(try cat.waitForEnd() == 0)
                let path = "\(fleet.devices[0].path)/\(name)"
                try Command("cmp", "\(home.path)/\(name)", path).succeed()
            }
            #expect(try stopped.waitForEnd() == 0)
            try fleet.shell(1, "echo after > after")
            try fleet.expectSound()
        }
    }

    @Test("18: names of 246 to 255 bytes, and two of each") func longNames() throws {
        try Fleet.with(2) { fleet in
            let names = (246...255).flatMap { count in
                let wide = String(repeating: "é", count: (count - 4) / 2)
                return [
                    String(repeating: "n", count: count - 4) + ".txt",
                    wide + String(repeating: "w", count: count - 4 - wide.utf8.count) + ".odt",
                    String(repeating: "f", count: count - 6) + ".d.pkg",
                ]
            }
            #expect(names.allSatisfy { (246...255).contains($0.utf8.count) })
            for name in names { try fleet.put(0, name, "old") }
            try fleet.expectEqual()
            for name in names { try fleet.put(1, name, "new") }
            let folder = String(repeating: "d", count: 255)
            try fleet.shell(1, "mkdir \(folder); mv *.pkg \(folder)/")
            try fleet.expectEqual()
            #expect(try fleet.names(0, folder).count == 10)
            // Both devices create the same names offline, and one document is edited on both.
            for index in 0..<2 { try fleet.offline(index) }
            for index in 0..<2 {
                for name in names { try fleet.put(index, "\(name.dropFirst())2", "by \(index)") }
                try fleet.put(index, names[0], "by \(index)")
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.join()
            try fleet.expectSound()
            for index in 0..<3 {
                let found = try fleet.names(index)
                #expect(found.count == 20 + 1 + 60)
                #expect(found.allSatisfy { $0.utf8.count <= 255 })
                let texts = found.compactMap { fleet.text(index, $0) }
                #expect(texts.count { $0 == "new" } == 19)
                // The documents with alternative names, the first ones, and the one with a
                // conflict.
                let ours = (0..<2).map { device in texts.count { $0 == "by \(device)" } }
                #expect(ours.reduce(0, +) == 61 && ours.min()! >= 30, "\(ours)")
                let both =
                    try [fleet.text(index, names[0]) ?? ""] + fleet.conflicts(index, names[0])
                #expect(both.sorted() == ["by 0", "by 1"])
            }
        }
    }

    @Test(
        "18: an alternative name fits for any names of the device and the document",
        arguments: ["laptop", "机", "👨‍👩‍👧‍👦"], ["n", "é", "👨‍👩‍👧‍👦"])
    func spareNames(device: String, name: String) {
        let device = String(repeating: device, count: 250 / device.utf8.count)
        let name = String(repeating: name, count: 250 / name.utf8.count)
        for name in [name, name + ".txt", "a." + name] {
            let spare = VolumeKeys.spare(name, device: device, moment: 0)
            #expect(spare.utf8.count <= 255 && spare.contains(" (" + device.prefix(1)))
        }
    }

    @Test("19: a joining device has the conflicts and does not settle them")
    func conflictsOfOneWhoJoins() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir p.rtfd; echo old > p.rtfd/TXT.rtf; echo old > f")
            try fleet.expectEqual()
            for index in 0..<2 { try fleet.offline(index) }
            for index in 0..<2 {
                try fleet.shell(index, "echo by \(index) > f; echo by \(index) > p.rtfd/TXT.rtf")
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.settle()
            let conflicts = try ["f", "p.rtfd"].map { try fleet.conflicts(0, $0) }
            #expect(conflicts.allSatisfy { $0.count == 1 })
            try fleet.join()
            try fleet.expectSound()
            try fleet.shell(2, "echo edited > f; echo edited > p.rtfd/TXT.rtf")
            try fleet.expectSound()
            for index in 0..<3 {
                #expect(try fleet.conflicts(index, "f") == conflicts[0])
                #expect(try fleet.conflicts(index, "p.rtfd").count == 1)
            }
        }
    }

    @Test("19: more than ten conflicts of one document") func manyConflicts() throws {
        try Fleet.with(4) { fleet in
            try fleet.put(0, "f", "begun")
            try fleet.expectEqual()
            var written: [String] = []
            for round in 0..<4 {
                for index in 0..<4 { try fleet.offline(index) }
                for index in 0..<4 {
                    written.append("round \(round), device \(index)")
                    // Reading makes the next save an edit of the version that is current here.
                    _ = fleet.text(index, "f")
                    try fleet.put(index, "f", written.last!)
                    try fleet.devices[index].waitForDisk()
                }
                for index in 0..<4 { try fleet.online(index) }
                try fleet.settle()
            }
            try fleet.expectSound()
            let history = try History.texts(of: "\(fleet.devices[3].path)/f")
            #expect(Set(history).isSuperset(of: written), "none is out of reach")
            let conflicts = try fleet.conflicts(0, "f")
            #expect(conflicts.count > 10, "\(conflicts)")
            #expect(Set(conflicts).count == conflicts.count)
            for index in 0..<4 {
                #expect(try fleet.conflicts(index, "f") == conflicts)
                #expect(try fleet.names(index) == ["f"])
            }
        }
    }
}
