import Foundation
import Support
import Testing

/// The decision table on two real mounts with a real hub: both devices change something while they
/// are offline, and then meet. The rows are those of DecisionTable.md.
@Suite("Two devices, one volume", .serialized) struct StoryTests {
    /// The state before, the offline changes of A and B, and the state afterwards. After each line
    /// of `before` both devices are equal.
    struct Story: CustomTestStringConvertible, Sendable {
        var row: Int
        var title: String
        var before: String
        var a: String
        var b: String
        /// A shell script that must succeed on both devices.
        var after: String
        /// The texts of the conflict versions, by document.
        var conflicts: [String: [String]] = [:]

        var testDescription: String { "row \(row): \(title)" }
    }

    static let stories = [
        Story(
            row: 1, title: "the same edit twice", before: "echo old > f", a: "echo new > f",
            b: "echo new > f", after: "grep -qx new f && [ $(ls | wc -l) = 1 ]",
            conflicts: ["f": []]),
        Story(
            row: 2, title: "two edits: both live, the newer is current", before: "echo old > f",
            a: "echo a > f", b: "sleep 0.1; echo b > f", after: "grep -qx b f",
            conflicts: ["f": ["a\n"]]),
        Story(
            row: 4, title: "an edit wins over a delete", before: "echo old > f", a: "rm f",
            b: "echo edited > f", after: "grep -qx edited f"),
        Story(
            row: 5, title: "a move wins over a delete", before: "echo text > f; mkdir d",
            a: "rm f", b: "mv f d/g", after: "grep -qx text d/g && [ ! -e f ]"),
        Story(
            row: 6, title: "attributes lose against a delete", before: "echo text > f",
            a: "rm f", b: "chmod 600 f", after: "[ ! -e f ]"),
        Story(
            row: 7, title: "deleted twice", before: "echo text > f", a: "rm f", b: "rm f",
            after: "[ ! -e f ]"),
        Story(
            row: 8, title: "of a deleted folder what was edited in it stays",
            before: "mkdir -p d/e; echo 1 > d/one; echo 2 > d/e/two; echo 3 > d/e/three",
            a: "rm -r d", b: "echo edited > d/e/two",
            after: "grep -qx edited d/e/two && [ ! -e d/one ] && [ ! -e d/e/three ]"),
        Story(
            row: 9, title: "a renamed folder is not deleted", before: "mkdir d; echo 1 > d/one",
            a: "rm -r d", b: "mv d moved", after: "[ -d moved ] && [ ! -e d ]"),
        Story(
            row: 10, title: "made in a folder that is deleted",
            before: "mkdir -p d/e; echo 1 > d/one", a: "rm -r d", b: "echo new > d/e/new",
            after: "grep -qx new d/e/new && [ ! -e d/one ]"),
        Story(
            row: 11, title: "one folder made twice", before: "true",
            a: "mkdir d; echo a > d/a", b: "mkdir d; echo b > d/b",
            after: "grep -qx a d/a && grep -qx b d/b && [ $(ls | wc -l) = 1 ]"),
        Story(
            row: 12, title: "one file made twice", before: "true", a: "echo same > f",
            b: "echo same > f", after: "grep -qx same f && [ $(ls | wc -l) = 1 ]",
            conflicts: ["f": []]),
        Story(
            row: 13, title: "two files of one name", before: "true", a: "echo a > f.txt",
            b: "echo b > f.txt",
            after: """
                [ $(ls | wc -l) = 2 ] && cat *.txt | sort | tr -d '\\n' | grep -qx ab && \
                [ -e f.txt ] && ls | grep -q 'f (dev[01] .*).txt'
                """),
        Story(
            row: 14, title: "a file and a folder of one name", before: "true", a: "echo a > n",
            b: "mkdir n; echo b > n/b", after: "[ $(ls | wc -l) = 2 ] && [ -e n ]"),
        Story(
            row: 15, title: "two files moved to one name",
            before: "echo 1 > one; echo 2 > two", a: "mv one both", b: "mv two both",
            after: "[ -e both ] && [ $(ls | wc -l) = 2 ] && cat * | sort | head -1 | grep -qx 1"),
        Story(
            row: 16, title: "one file renamed twice: the newer name, no copy",
            before: "echo text > f", a: "mv f a", b: "sleep 0.5; mv f b",
            after: "grep -qx text b && [ $(ls | wc -l) = 1 ]"),
        Story(
            row: 17, title: "renamed here, edited there", before: "echo old > f",
            a: "mv f g", b: "echo new > f", after: "grep -qx new g && [ ! -e f ]",
            conflicts: ["g": []]),
        Story(
            row: 17, title: "its folder renamed here, edited there",
            before: "mkdir d; echo old > d/f", a: "mv d e", b: "echo new > d/f",
            after: "grep -qx new e/f && [ ! -e d ]", conflicts: ["e/f": []]),
        Story(
            row: 18, title: "two folders moved into each other", before: "mkdir x y",
            a: "mv x y/", b: "mv y x/", after: "[ -d x/y ] || [ -d y/x ]"),
        Story(
            row: 19, title: "one name, composed and decomposed", before: "true",
            a: "echo a > $'caf\\xc3\\xa9'", b: "echo b > $'cafe\\xcc\\x81'",
            after: "[ $(ls | wc -l) = 2 ] && [ \"$(cat * | sort | tr -d '\\n')\" = ab ]"),
        Story(
            row: 20, title: "a file becomes a folder", before: "echo old > n",
            a: "rm n; mkdir n; echo a > n/a", b: "echo edited > n",
            after: "[ $(ls | wc -l) = 2 ] && grep -rqx edited . && grep -rqx a ."),
        Story(
            row: 21, title: "a folder becomes a package while it is edited",
            before: "mkdir p; echo 1 > p/one; echo 2 > p/two", a: "mv p p.rtfd",
            b: "echo edited > p/two",
            after: "grep -qx 1 p.rtfd/one && grep -rqx edited ."),
        Story(
            row: 21, title: "a folder becomes a package", before: "mkdir p; echo 1 > p/one",
            a: "mv p p.rtfd", b: "true", after: "grep -qx 1 p.rtfd/one && [ ! -e p ]"),
        Story(
            row: 21, title: "a package becomes a folder",
            before: "mkdir p.rtfd; echo 1 > p.rtfd/one", a: "mv p.rtfd p", b: "true",
            after: "grep -qx 1 p/one && [ ! -e p.rtfd ]"),
        Story(
            row: 22, title: "a package is never mixed",
            before: "mkdir p.rtfd; echo 0 > p.rtfd/one; echo 0 > p.rtfd/two",
            a: "echo a > p.rtfd/one; echo a > p.rtfd/two",
            b: "sleep 0.1; echo b > p.rtfd/one; echo b > p.rtfd/two",
            after: "cmp p.rtfd/one p.rtfd/two"),
        Story(
            row: 23, title: "each name of a hard link is a document", before: "echo text > f",
            a: "ln f g", b: "echo new > f", after: "grep -qx new f && grep -qx text g"),
        Story(
            row: 23, title: "what is written through one name of a hard link is in both",
            before: "echo text > f; ln f g", a: "echo new > f", b: "true",
            after: "grep -qx new f && grep -qx new g"),
        Story(
            row: 24, title: "attributes are registers of their own", before: "echo text > f",
            a: "chmod 600 f", b: "setfattr -n user.colour -v red f",
            after: """
                [ $(stat -c %a f) = 600 ] && \
                [ "$(getfattr --only-values -n user.colour f)" = red ]
                """, conflicts: ["f": []]),
        Story(
            row: 25, title: "two targets of one link: both live", before: "ln -s old l",
            a: "ln -sfn a l", b: "ln -sfn b l", after: "[ -L l ] && [ $(ls | wc -l) = 2 ]"),
        Story(
            row: 27, title: "what is restored here and deleted there again stays",
            before: "echo text > f\nrm f",
            a: "\(Programs.fsctl) undelete f; \(Programs.fsctl) wait --durable disk f; rm f",
            b: "sleep 0.1; \(Programs.fsctl) undelete f", after: "grep -qx text f"),
    ]

    @Test("the decision table", arguments: stories) func table(_ story: Story) throws {
        try Fleet.with(2) { fleet in
            for line in story.before.split(separator: "\n") {
                try fleet.shell(0, String(line))
                try fleet.expectEqual()
            }
            try fleet.offline(0)
            try fleet.offline(1)
            try fleet.shell(0, story.a)
            try fleet.shell(1, story.b)
            for device in fleet.devices { try device.waitForDisk() }
            try fleet.online(0)
            try fleet.settle([0])
            try fleet.online(1)
            try fleet.expectEqual()
            for index in 0..<2 {
                do { try fleet.shell(index, story.after) } catch {
                    Issue.record("device \(index) has \(try fleet.names(index)): \(error)")
                }
                for (path, texts) in story.conflicts {
                    #expect(try fleet.conflicts(index, path) == texts)
                }
            }
        }
    }
}
