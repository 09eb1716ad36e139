import Control
import FileCoordination
import Foundation
import Support
import Testing

/// Apple's demonstration of a shoebox of pictures, step by step, on two devices of one hub.
@Suite("Shoebox stories") struct ShoeboxStoryTests {
    private final class Box: FilePresenter {
        let presentedItemURL: URL?
        let presentedItemOperationQueue = OperationQueue()
        init(_ path: String) { presentedItemURL = URL(filePath: path) }
    }

    private func state(_ path: String) -> String? {
        FilePath(path).attribute("user.concord.state").map { String(decoding: $0, as: UTF8.self) }
    }

    /// The Mac is device 0, the iPad device 1.
    @Test("A23: the iPad is told of a picture that the Mac adds, shows it, and is told no more")
    func adding() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir box; printf 1 > box/1.png; printf 2 > box/2.png")
            try fleet.expectEqual()
            let roots = fleet.devices.map { "\($0.path)/box" }
            let pad = try Program()
            try pad.present("box", roots[1])
            // 1. The Mac's program writes it under a new name.
            let box = Box(roots[0])
            FileCoordinator.addFilePresenter(box)
            defer { FileCoordinator.removeFilePresenter(box) }
            // It is more than is downloaded without a request, and is not text.
            let picture = Data((0..<3_000_000).map { UInt8(truncatingIfNeeded: 0x80 + $0 % 101) })
            try FileCoordinator(filePresenter: box).coordinate(
                writingItemAt: URL(filePath: "\(roots[0])/3.png"), options: .forReplacing
            ) { try FileWrapper(regularFileWithContents: picture).write(to: $0) }
            // 2 to 4. It is uploaded, its name arrives, and the presenter of the directory is told.
            let path = "\(roots[1])/3.png"
            try wait(seconds: 30, for: "word of \(path); there is \(pad.all)") {
                pad.all.first { $0.message == "subitemAppeared" && $0.path == path }
            }
            try fleet.settle()
            #expect(state(path) == "dataless")
            let told = pad.messages("box").count
            // 5. A coordinated read downloads it.
            try pad.claim("show", "read:\(path) as=box")
            try pad.end("show")
            try wait(for: "it to be here") { state(path) == "current" ? true : nil }
            // 6. It is shown. The presenter gets no message about its own read.
            try fleet.settle()
            #expect(Array(pad.messages("box").dropFirst(told)) == [])
            // 7. Both devices show the same.
            try fleet.expectEqual()
            #expect(try fleet.names(1, "box") == ["1.png", "2.png", "3.png"])
            #expect(try Data(contentsOf: URL(filePath: path)) == picture)
        }
    }
}
