import Foundation
import Glibc
import Logging
import Support
import Testing

@testable import concord

/// The delay of shutdown and sleep, with a program of the test in place of systemd-inhibit.
@Suite("Inhibitor", .serialized) struct InhibitorTests {
    private let home: TemporaryDirectory
    private var log: String { "\(home.path)/said" }

    init() throws { home = try TemporaryDirectory("inhibitor") }

    /// The lines that the program wrote: its options, and `end` when it was released.
    private var said: [String] {
        let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").map(String.init)
    }

    private func with(
        program: String?, _ times: Inhibitor.Times, _ body: (Inhibitor) throws -> Void
    ) throws {
        let usual = ProcessInfo.processInfo.environment["PATH"] ?? ""
        if let program {
            let file = "\(home.path)/systemd-inhibit"
            try program.write(toFile: file, atomically: true, encoding: .utf8)
            chmod(file, 0o755)
        }
        setenv("PATH", program == nil ? home.path : "\(home.path):\(usual)", 1)
        defer { setenv("PATH", usual, 1) }
        let inhibitor = Inhibitor(times: times, log: Logger(label: "test"))
        defer { inhibitor.stop() }
        try body(inhibitor)
    }

    private var fake: String {
        """
        #!/bin/sh
        echo "$@" >> \(log)
        shift 4
        "$@"
        echo end >> \(log)
        """
    }

    private var quick: Inhibitor.Times {
        Inhibitor.Times(quietSeconds: 30, heldSeconds: 300, graceSeconds: 0.02)
    }

    @Test func itHoldsUntilAllIsSafe() throws {
        try with(program: fake, quick) { inhibitor in
            inhibitor.set(true)
            try wait(for: "the program") { said.count == 1 ? true : nil }
            #expect(said[0].hasPrefix("--what=shutdown:sleep --mode=delay --who=Concord --why="))
            inhibitor.set(true)
            inhibitor.set(false)
            try wait(for: "its end") { said.last == "end" ? true : nil }
            inhibitor.set(true)
            try wait(for: "the second time") { said.count == 3 ? true : nil }
        }
        #expect(said.count == 4 && said.last == "end")
    }

    /// The program may take a while to end.
    @Test func itHoldsAgainWhatBecomesUnsafeMeanwhile() throws {
        let mayEnd = "\(home.path)/may-end"
        let slow = fake + "\nuntil [ -e \(mayEnd) ]; do sleep 0.01; done"
        try with(program: slow, quick) { inhibitor in
            inhibitor.set(true)
            try wait(for: "the program") { said.count == 1 ? true : nil }
            inhibitor.set(false)
            try wait(for: "its end") { said.last == "end" ? true : nil }
            inhibitor.set(true)
            close(creat(mayEnd, 0o600))
            try wait(for: "the second time") { said.count == 3 ? true : nil }
        }
        #expect(said.count == 4 && said.last == "end")
    }

    @Test func itIsTimeBoxed() throws {
        var times = quick
        times.heldSeconds = 0.2
        try with(program: fake, times) { inhibitor in
            inhibitor.set(true)
            try wait(for: "its end") { said.last == "end" ? true : nil }
            // It is not held again before everything was safe once.
            inhibitor.set(true)
            usleep(200_000)
            #expect(said.count == 2)
            inhibitor.set(false)
            inhibitor.set(true)
            try wait(for: "the second time") { said.count >= 3 ? true : nil }
        }
    }

    @Test func withoutProgressItIsLetGoOf() throws {
        var times = quick
        times.quietSeconds = 0.2
        try with(program: fake, times) { inhibitor in
            inhibitor.set(true)
            try wait(for: "its end") { said.last == "end" ? true : nil }
        }
    }

    @Test func whatIsQuickIsNotDelayed() throws {
        var times = quick
        times.graceSeconds = 0.3
        try with(program: fake, times) { inhibitor in
            inhibitor.set(true)
            inhibitor.set(false)
            usleep(500_000)
            #expect(said.isEmpty)
        }
    }

    @Test func whereThereIsNoneNothingHappens() throws {
        try with(program: nil, quick) { inhibitor in
            inhibitor.set(true)
            usleep(200_000)
            inhibitor.set(false)
            inhibitor.set(true)
            usleep(100_000)
        }
        #expect(said.isEmpty)
    }
}
