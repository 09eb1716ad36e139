import Control
import Model
import Testing

@testable import fsctl

/// What `fsctl coordinate`, `locks`, `watch` and `present` parse and print, without a daemon.
@Suite struct TurnLineTests {
    private func accesses(_ line: String) throws -> [CoordinateArguments.Access] {
        try CoordinateArguments(line.split(separator: " ").map(String.init) + ["--", "cp", "-1"])
            .accesses
    }

    @Test func oneWordForEachWay() throws {
        let line = try CoordinateArguments(["read", "a", "b", "--", "cat", "--", "-n"])
        #expect(line.command == ["cat", "--", "-n"])
        #expect(line.accesses.map(\.path) == ["a", "b"])
        #expect(line.accesses.allSatisfy { $0.way == .reading([]) })
        #expect(try accesses("write a") == [.init(path: "a", way: .writing(.update))])
        #expect(
            try accesses("write --moving a write b --replacing read --uploading ./read") == [
                .init(path: "a", way: .writing(.moving)),
                .init(path: "b", way: .writing(.replacing)),
                .init(path: "./read", way: .reading([.forUploading])),
            ])
        #expect(
            try accesses("read --without-changes --resolve-symlink a").first?.way
                == .reading([.withoutChanges, .resolvesSymbolicLink]))
    }

    @Test(arguments: AccessField.WritingOption.allCases)
    func everyWayOfWritingHasAnOption(_ option: AccessField.WritingOption) {
        #expect(option == .update || CoordinateArguments.writingOptions.values.contains(option))
    }

    @Test(arguments: AccessField.ReadingOption.allCases)
    func everyWayOfReadingHasAnOption(_ option: AccessField.ReadingOption) {
        #expect(CoordinateArguments.readingOptions.values.contains(option))
    }

    @Test(
        "invalid lines are refused with a sentence",
        arguments: [
            ("", "before the command"), ("read a", "before the command"),
            ("read a --", "before the command"),
            ("-- cat", "Start with a claim"), ("a -- cat", "Start with a claim"),
            ("--x read a -- cat", "Start with a claim"),
            ("read -- cat", "needs a path"), ("read write a -- cat", "needs a path"),
            ("read --moving a -- cat", "no option of reading"),
            ("write --no-wait a -- cat", "no option of writing"),
            ("write --moving --deleting a -- cat", "at most one option"),
        ])
    func mistakes(line: String, sentence: String) {
        let words = line.split(separator: " ").map(String.init)
        let error = #expect(throws: CoordinateArguments.UsageError.self) {
            try CoordinateArguments(words)
        }
        #expect(error?.message.contains(sentence) == true, "\(error?.message ?? "")")
    }

    private func filled(_ words: String..., with paths: String...) -> [String] {
        CommandTemplate(words.map(FilePath.init(_:))).filled(with: paths.map(FilePath.init(_:)))
            .map(\.description)
    }

    @Test func pathsArePutIntoTheCommand() {
        #expect(filled("cp", "{1}", "{2}", with: "a", "b") == ["cp", "a", "b"])
        #expect(filled("dd", "if={1}", "of={2}", with: "a", "b") == ["dd", "if=a", "of=b"])
        #expect(filled("rm", "-f", "{}", with: "a", "b") == ["rm", "-f", "a", "b"])
        #expect(filled("cat", "{}", "x/{}", with: "a b") == ["cat", "a b", "x/a b"])
        // These are not replaced: there are fewer paths, or the text is not a number.
        #expect(
            filled("{0}", "{3}", "x{}", "{x}", "{", with: "a", "b") == [
                "{0}", "{3}", "x{}", "{x}", "{",
            ])
        // A path that was put in is not expanded again.
        #expect(filled("{1}{2}", with: "{2}", "b") == ["{2}b"])
    }

    @Test func bytesOfNamesStay() {
        let name = FilePath(bytes: [0x62, 0xFF])
        #expect(
            CommandTemplate([FilePath("x{1}")]).filled(with: [name])[0].bytes == [
                0x78, 0x62, 0xFF,
            ])
    }

    @Test func argumentsOfTheCommandAreItsOwn() {
        #expect(
            VersionSpecifier.escapingOffsets(["diff", "a", "-1", "--", "head", "-5"])
                == ["diff", "a", "@-1", "--", "head", "-5"])
    }

    private func turn(
        _ kind: LocksReport.Turn.Kind, _ state: LocksReport.Turn.State, _ access: String,
        _ process: Int32, behind: [LocksReport.Behind] = []
    ) -> LocksReport.Turn {
        LocksReport.Turn(
            kind: kind, state: state, access: access, path: RawText("a.txt"), process: process,
            program: "vim", since: 0, behind: behind)
    }

    @Test func turnsAsATable() {
        let others = [
            LocksReport.Behind(process: 7, program: "vim", why: "was asked to save"),
            LocksReport.Behind(process: 8, program: "", why: "is before it"),
        ]
        let table = LocksCommand.table(
            [
                turn(.presenter, .granted, "", 7), turn(.claim, .granted, "update", 8),
                turn(.claim, .asking, "moving", 9, behind: others),
                turn(.plain, .granted, "read", 10), turn(.plain, .waiting, "update", 0),
            ], now: 12_000_000_000)
        #expect(
            table.text(width: nil) == """
                PROGRAM   DOES                      FOR  PATH   WAITS FOR
                vim (7)   presents                 12 s  a.txt
                vim (8)   writes                   12 s  a.txt
                vim (9)   wants to write (moving)  12 s  a.txt  vim (7) was asked to save; \
                process 8 is before it
                vim (10)  has it open to read      12 s  a.txt
                vim       wants to write           12 s  a.txt
                """)
        let note = VolumeClaim.note([turn(.claim, .waiting, "read", 9, behind: others)], own: 9)
        #expect(note == "waiting: vim (7) was asked to save; process 8 is before it")
        #expect(VolumeClaim.note([]) == "waiting for other programs' claims")
    }

    @Test func eventsAsLines() {
        var event = WatchEvent(
            .moved, path: RawText("a\u{1B}"), time: 1_795_183_439_000_000_000, process: 7,
            program: "mv")
        event.to = RawText("b")
        #expect(WatchCommand.text(event, inUTC: true) == "14:03:59  mv (7) moved a? to b")
        let own = WatchEvent(.changed, path: RawText(""), time: 0, process: 0, program: "")
        #expect(WatchCommand.text(own, inUTC: true) == "00:00:00  an unknown program changed /")
    }

    @Test(arguments: [
        (0, "0 s"), (99, "99 s"), (100, "1 min"), (5999, "99 min"), (6000, "1 h"),
        (172_799, "47 h"), (172_800, "2 days"),
    ])
    func ages(seconds: Int64, text: String) {
        #expect(TimeFormat.age(0, now: seconds * 1_000_000_000) == text)
    }

    @Test func messagesHavePathsOfTheMachine() {
        var message = PresenterMessage(presenter: 1, kind: .subitemMoved)
        (message.path, message.to) = (RawText("d/a"), RawText("d/b"))
        let line = String(
            decoding: json(MessageLine(message, on: FilePath("/mnt"))), as: UTF8.self)
        #expect(line == #"{"kind":"subitemMoved","path":"/mnt/d/a","to":"/mnt/d/b"}"#)
        var save = PresenterMessage(presenter: 1, kind: .save)
        save.turn = 12
        #expect(
            String(decoding: json(MessageLine(save, on: FilePath("/"))), as: UTF8.self)
                == #"{"kind":"save","turn":12}"#)
    }
}
