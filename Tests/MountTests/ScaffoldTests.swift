import Foundation
import Support
import Testing

/// The tools of the mount's tests, tried on plain directories, where the result is known.
@Suite("Test tools")
struct ScaffoldTests {
    @Test("a command's output, errors and status are returned; one that hangs is ended")
    func command() throws {
        var command = Command("sh", "-c", "cat; echo bad >&2; pwd; exit 3")
        command.input = Data("in\n".utf8)
        command.directory = "/usr"
        let result = try command.run()
        #expect(result.output == "in\n/usr\n")
        #expect(result.errors == "bad\n")
        #expect(result.status == 3)
        #expect(try Command("sh", "-c", "kill -9 $$").run().status == 137)
        var slow = Command("sleep", "60")
        slow.timeoutSeconds = 0.2
        #expect(throws: SupportError.self) { try slow.run() }
        #expect(throws: SupportError.self) { try Command("no-such-program").run() }
    }

    @Test("a child inherits none of our descriptors")
    func descriptors() throws {
        let open = try FileHandle(forReadingFrom: URL(filePath: "/etc/passwd"))
        let listed = try Command("sh", "-c", "ls /proc/$$/fd").succeed()
        #expect(listed.split(separator: "\n").count <= 4, "\(listed)")
        try open.close()
    }

    @Test("a temporary directory is removed with its last reference")
    func temporary() throws {
        var directory: TemporaryDirectory? = try TemporaryDirectory()
        let path = try #require(directory?.path)
        try directory?.write("text", to: "file")
        directory = nil
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test("the random tester reports nothing on a plain directory")
    func randomTreeAgrees() throws {
        let home = try TemporaryDirectory()
        let sides = try sides(in: home)
        let tree = RandomTree(
            random: SeededRandom(named: "RandomTree, plain"), tested: sides[0], model: sides[1],
            remount: {})
        try tree.run(steps: 2_000)
    }

    @Test(
        "the random tester finds each planted difference",
        arguments: [
            "echo x >>\"$F\"", "rm \"$F\"", "touch extra", "chmod 123 \"$F\"", "ln \"$F\" other",
            "setfattr -n user.planted -v 1 \"$F\"",
            "printf y | dd of=\"$F\" conv=notrunc status=none",
            "ln -s a planted", "mkdir planted",
        ])
    func randomTreeFinds(damage: String) throws {
        let home = try TemporaryDirectory()
        let sides = try sides(in: home)
        var damaged = false
        let tree = RandomTree(
            random: SeededRandom(named: "RandomTree, planted"), tested: sides[0], model: sides[1]
        ) {
            if damaged { return }
            damaged = true
            for side in sides {
                let file = "\(side)/the file"
                try? FileManager.default.removeItem(atPath: file)
                try Data("xxx".utf8).write(to: URL(filePath: file))
            }
            var command = Command("sh", "-ec", damage)
            command.environment = ["F": "the file"]
            command.directory = sides[0]
            try command.succeed()
        }
        #expect(throws: SupportError.self) { try tree.run(steps: 5_000) }
        #expect(damaged)
    }

    private func sides(in home: TemporaryDirectory) throws -> [String] {
        try ["tested", "model"].map { name in
            let path = "\(home.path)/\(name)"
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: false)
            return path
        }
    }

    @Test("half a content, a mixture and a flipped bit are recognized")
    func wholeness() {
        let one = WholeContent(writer: "w", sequence: 1)
        let bytes = one.bytes(length: 5_003)
        #expect(WholeContent(bytes) == one)
        #expect(WholeContent(bytes.dropLast()) == nil)
        #expect(WholeContent(bytes + Data([0])) == nil)
        #expect(WholeContent(Data()) == nil)
        var flipped = bytes
        flipped[2_000] ^= 1
        #expect(WholeContent(flipped) == nil)
        let other = WholeContent(writer: "w", sequence: 3).bytes(length: 5_003)
        #expect(WholeContent(bytes.prefix(2_500) + other.suffix(other.count - 2_500)) == nil)
        #expect(WholeContent(one.bytes(length: 0)) == one)
    }

    @Test("every way to save leaves the new content", arguments: SavePattern.allCases)
    func patterns(pattern: SavePattern) throws {
        let home = try TemporaryDirectory()
        let path = "\(home.path)/document.txt"
        for number in 1...3 {
            let content = WholeContent(writer: "w", sequence: number)
            try pattern.save(content.bytes(length: 100), to: path, synced: number == 2)
            #expect(WholeContent(try Data(contentsOf: URL(filePath: path))) == content)
        }
    }

    @Test("editors save as often as they are asked to", arguments: Editor.allCases)
    func editors(editor: Editor) throws {
        let home = try TemporaryDirectory()
        let file = try home.write("first line\n", to: "letter.txt")
        let expected = try editor.save(file, times: 3)
        #expect(try String(contentsOfFile: file, encoding: .utf8) == expected)
        #expect(expected.split(separator: "\n").count == 4)
    }
}
