import Control
import Foundation
import Glibc
import Support
import Testing

/// Conflicts on two mounts, examined and settled by ordinary commands and by fsctl.
@Suite("Conflicts") struct ConflictTests {
    @Test("the losing versions are in .conflicts, which is not listed")
    func hidden() throws {
        try Fleet.with(2) { fleet in
            try fleet.script(0, "mkdir -p sub/deep; echo x > sub/deep/other; git init -q .")
            try fleet.conflict("sub/letter.txt")
            for index in 0..<2 {
                #expect(fleet.text(index, "sub/letter.txt") == "by 1")
                let names = try fleet.names(index, "sub/.conflicts/letter.txt")
                #expect(names.count == 1 && names[0].hasSuffix(".txt"))
                let path = "sub/.conflicts/letter.txt/\(names[0])"
                #expect(fleet.text(index, path) == "by 0")
                #expect(try fleet.names(index, "sub/.conflicts") == ["letter.txt"])
                let home = try TemporaryDirectory("wanderers")
                let out = home.path
                try fleet.script(
                    index,
                    """
                    find . | none
                    tar cf \(out)/t.tar --exclude=.git .
                    tar tf \(out)/t.tar | none
                    rsync -a --exclude=.git ./ \(out)/r/
                    cp -a sub \(out)/c
                    find \(out)/r \(out)/c | none
                    du -a . | none
                    no grep -r 'by 0' sub
                    git status --porcelain -uall | none
                    ls -lRA . | none
                    updatedb -l 0 -U . -o \(out)/db --prunefs '' --prunepaths ''
                    locate -d \(out)/db letter.txt
                    locate -d \(out)/db '*' | none
                    cp sub/.conflicts/letter.txt/* \(out)/copy.txt
                    diff sub/letter.txt \(out)/copy.txt > \(out)/diff || grep -q 'by 0' \(out)/diff
                    """)
            }
        }
    }

    /// A draft that a program has made from "old" is renamed over "theirs", which arrived
    /// meanwhile. The other device goes on from that, or does not.
    @Test("what was replaced unseen is in conflict until it is edited", arguments: [true, false])
    func unseen(_ goesOn: Bool) throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", "old")
            try fleet.settle()
            try fleet.shell(
                1,
                """
                printf mine > .#draft.txt
                setfattr -n user.concord.base -v "$(stat -c '%s %Y' a.txt) \
                $(($(date -r a.txt +1%N) - 1000000000))" .#draft.txt
                """)
            try fleet.put(0, "a.txt", "theirs")
            try fleet.settle()
            _ = try fleet.history(1, "a.txt")
            try fleet.offline(1)
            try fleet.shell(1, "mv .#draft.txt a.txt")
            #expect(try fleet.conflicts(1, "a.txt") == ["theirs"])
            // The newest contents become the current version everywhere.
            if goesOn { try fleet.put(0, "a.txt", "later") }
            try fleet.settle([0])
            try fleet.online(1)
            try fleet.settle()
            let (current, loser) = goesOn ? ("later", "mine") : ("mine", "theirs")
            try fleet.expect("a.txt", current, conflicts: [loser])
            #expect(try fleet.history(1, "a.txt").versions.count == (goesOn ? 4 : 3))
        }
    }

    @Test("removing a version settles it on all devices; other writes there are EROFS")
    func removing() throws {
        try Fleet.with(2) { fleet in
            for name in ["a.txt", "b.txt"] { try fleet.conflict(name) }
            try fleet.script(
                0,
                """
                v=$(ls .conflicts/a.txt)
                no cp a.txt ".conflicts/a.txt/$v"
                no cp a.txt .conflicts/a.txt/new
                no mkdir .conflicts/new
                no mv a.txt .conflicts/a.txt/
                no mv ".conflicts/a.txt/$v" ".conflicts/a.txt/other"
                no rmdir .conflicts/a.txt
                no ln ".conflicts/a.txt/$v" here
                no rm -f .versions/a.txt/*
                [ "$(cat ".conflicts/a.txt/$v")" = "by 0" ]
                rm -f .conflicts/a.txt/*
                [ ! -e .conflicts/none ]
                """)
            try fleet.script(1, "rm -r .conflicts/b.txt")
            try fleet.settle()
            for index in 0..<2 {
                #expect(try fleet.names(index, ".conflicts").isEmpty)
                #expect(try fleet.names(index) == ["a.txt", "b.txt"])
                for name in ["a.txt", "b.txt"] {
                    #expect(fleet.text(index, name) == "by 1")
                    // A settled version stays in the history.
                    let kept = try fleet.names(index, ".versions/\(name)")
                    let texts = kept.map { fleet.text(index, ".versions/\(name)/\($0)") }
                    #expect(texts.contains("by 0"))
                }
            }
        }
    }

    @Test("moving a version onto its document makes it current; moving it elsewhere makes a copy")
    func moving() throws {
        try Fleet.with(2) { fleet in
            try fleet.conflict("a.txt")
            try fleet.conflict("b.txt")
            try fleet.script(0, "chmod 640 a.txt; mv .conflicts/a.txt/* a.txt")
            #expect(fleet.text(0, "a.txt") == "by 0")
            try fleet.script(0, "[ $(stat -c %a a.txt) = 640 ]; echo more >> a.txt")
            try fleet.script(1, "mkdir new; mv .conflicts/b.txt/* new/c.txt")
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(fleet.text(index, "a.txt") == "by 0more\n")
                #expect(fleet.text(index, "b.txt") == "by 1")
                #expect(fleet.text(index, "new/c.txt") == "by 0")
                #expect(try fleet.names(index, ".conflicts").isEmpty)
            }
            let moved = try fleet.history(0, "a.txt").versions.last { $0.program == "mv" }
            #expect(moved?.parents.count == 2)
        }
    }

    @Test("fsctl resolve: each way to settle a conflict, and its undo", arguments: [0, 1])
    func resolving(on index: Int) throws {
        try Fleet.with(2) { fleet in
            let resolve = { (arguments: [String]) in
                try fleet.script(index, "fsctl resolve " + arguments.joined(separator: " "))
                try fleet.settle()
            }
            try fleet.conflict("a.txt")
            let number = try #require(
                try fleet.history(index, "a.txt").versions.last { $0.kind == "conflict" }?.number)
            try resolve(["a.txt", "--keep", "\(number)"])
            try fleet.expect("a.txt", "by 0", conflicts: [])
            try resolve(["a.txt", "--undo"])
            try fleet.expect("a.txt", "by 1", conflicts: ["by 0"])
            try resolve(["a.txt", "--keep", "current"])
            try fleet.expect("a.txt", "by 1", conflicts: [])
            try resolve(["a.txt", "--undo"])
            try fleet.expect("a.txt", "by 1", conflicts: ["by 0"])
            try resolve(["a.txt", "--keep", "both"])
            try fleet.expect("a.txt", "by 1", conflicts: [])
            try fleet.expect("a 2.txt", "by 0", conflicts: [])
            // Somebody has saved since, so the version that was current before is in conflict.
            try fleet.conflict("b.txt")
            let other = try #require(
                try fleet.history(index, "b.txt").versions.last { $0.kind == "conflict" }?.number)
            try resolve(["b.txt", "--keep", "\(other)"])
            try fleet.put(index, "b.txt", "later")
            try resolve(["b.txt", "--undo"])
            try fleet.expect("b.txt", "later", conflicts: ["by 0", "by 1"])
            try resolve(["--all", ".", "--keep", "newest"])
            try fleet.expect("b.txt", "later", conflicts: [])
            // The decision of the other device.
            try fleet.conflict("c.txt")
            try fleet.script(1 - index, "fsctl resolve c.txt --keep current")
            try fleet.settle()
            try resolve(["c.txt", "--undo"])
            try fleet.expect("c.txt", "by 1", conflicts: ["by 0"])
        }
    }

    @Test("fsctl resolve reports errors and then does nothing")
    func mistakes() throws {
        try Fleet.with(2) { fleet in
            try fleet.conflict("a.txt")
            try fleet.script(0, "mkdir empty; echo x > plain")
            for (arguments, sentence, code) in [
                ("plain --keep current", "no versions in conflict", 3),
                ("nothing --keep current", "there is no nothing", 3),
                ("a.txt --keep 99", "not in this conflict", 3),
                ("a.txt", "--keep", 5), (". --keep current", "--all", 3),
                ("a.txt --keep sideways", "sideways", 2), ("--all . ", "needs", 2),
                ("plain --undo", "could be undone", 3), ("a.txt --tool nosuch", "mergetool", 3),
                ("a.txt --tool 'x' --undo", "one of", 2),
            ] {
                var command = Command("/bin/bash", "-c", "fsctl resolve \(arguments)")
                command.directory = fleet.devices[0].path
                command.environment["PATH"] = Fleet.path
                let ended = try command.run()
                #expect(ended.status == code, "\(arguments): \(ended.status) \(ended.errors)")
                #expect(ended.errors.contains(sentence), "\(arguments): \(ended.errors)")
            }
            try fleet.expect("a.txt", "by 1", conflicts: ["by 0"])
        }
    }

    @Test("a merge tool gets the same files as from git; its result is a save that settles")
    func tool() throws {
        try Fleet.with(2) { fleet in
            try fleet.conflict("a.txt")
            try fleet.script(
                0,
                """
                export HOME=$(mktemp -d)
                git config --global mergetool.join.cmd 'cat "$BASE" "$LOCAL" "$REMOTE" > "$MERGED"'
                git config --global mergetool.fails.cmd 'echo junk > "$MERGED"; false'
                no fsctl resolve a.txt --tool fails
                [ "$(cat a.txt)" = "by 1" ]
                fsctl resolve a.txt --tool join
                rm -r "$HOME"
                """)
            try fleet.settle()
            try fleet.expect("a.txt", "baseby 1by 0", conflicts: [])
        }
    }

    @Test("a merge tool's result has the document's mode, and names are not interpreted by a shell")
    func toolModes() throws {
        try Fleet.with(2) { fleet in
            let name = "a; touch 'x' $HOME \u{e9}.sh"
            try fleet.conflict(name)
            try fleet.script(1, "chmod 751 a*.sh")
            try fleet.settle()
            try fleet.script(
                0,
                """
                export HOME=$(mktemp -d) TMPDIR="$(mktemp -d)/with space"
                mkdir "$TMPDIR"
                git config --global mergetool.join.cmd 'cat $BASE $LOCAL $REMOTE > $MERGED; :>left'
                fsctl resolve a*.sh --tool join
                [ -z "$(ls "$TMPDIR")" ]; [ "$(ls | wc -l)" = 1 ]
                [ "$(stat -c %a a*.sh)" = 751 ]
                rm -r "$HOME" "${TMPDIR%/*}"
                """)
            try fleet.settle()
            try fleet.expect(name, "baseby 1by 0", conflicts: [])
            try fleet.script(1, "[ \"$(stat -c %a a*.sh)\" = 751 ]")
        }
    }

    @Test("no git setting on the volume decides which program runs")
    func syncedSettings() throws {
        try Fleet.with(2) { fleet in
            try fleet.conflict("a.txt")
            try fleet.script(
                0,
                """
                export HOME="$PWD/home"; mkdir home; git init -q .
                git config mergetool.local.cmd 'touch "$HOME/ran"; cp "$LOCAL" "$MERGED"'
                git config --global mergetool.global.cmd 'touch "$HOME/ran"; cp "$LOCAL" "$MERGED"'
                no fsctl resolve a.txt --tool local
                no fsctl resolve a.txt --tool global
                GIT_DIR="$PWD/.git" no fsctl resolve a.txt --tool local
                [ ! -e home/ran ]
                export HOME=$(mktemp -d) TMPDIR="$PWD"
                git config --global mergetool.where.cmd 'git rev-parse && touch "$HOME/ran"; false'
                no fsctl resolve a.txt --tool where
                [ ! -e "$HOME/ran" ]; rm -r "$HOME" .git home
                """)
            try fleet.settle()
            try fleet.expect("a.txt", "by 1", conflicts: ["by 0"])
        }
    }

    @Test("packages are shown as directories and chosen as a whole") func packages() throws {
        try Fleet.with(2) { fleet in
            try fleet.script(0, "mkdir a.rtfd; echo base > a.rtfd/TXT; echo pic > a.rtfd/pic")
            try fleet.expectEqual()
            try fleet.offline(0)
            try fleet.script(0, "echo zero > a.rtfd/TXT")
            try fleet.devices[0].waitForDisk()
            try fleet.script(1, "echo one > a.rtfd/TXT; rm a.rtfd/pic")
            try fleet.settle([1])
            try fleet.online(0)
            try fleet.settle()
            for index in 0..<2 {
                try fleet.script(
                    index,
                    """
                    [ "$(cat .conflicts/a.rtfd/*/TXT)" = zero ]; [ -e .conflicts/a.rtfd/*/pic ]
                    [ "$(cat a.rtfd/TXT)" = one ]; [ ! -e a.rtfd/pic ]
                    no sh -c 'echo mine > .conflicts/a.rtfd/*/pic'
                    rm -f .conflicts/a.rtfd/*/pic; [ -e .conflicts/a.rtfd/*/pic ]
                    """)
            }
            try fleet.script(
                1,
                """
                n=$(fsctl versions a.rtfd | awk '/conflict/ {print $1}')
                fsctl resolve a.rtfd --keep $n
                """)
            try fleet.expectEqual()
            try fleet.script(0, "[ \"$(cat a.rtfd/TXT)\" = zero ]; [ -e a.rtfd/pic ]")
            try fleet.script(0, "fsctl resolve a.rtfd --undo; rmdir .conflicts/a.rtfd/*")
            try fleet.expectEqual()
            try fleet.script(1, "[ \"$(cat a.rtfd/TXT)\" = one ]; [ ! -e .conflicts/a.rtfd ]")
            try fleet.script(1, "fsctl resolve a.rtfd --undo")
            try fleet.settle()
            try fleet.script(0, "rm -r .conflicts/a.rtfd; [ ! -e .conflicts/a.rtfd ]")
            try fleet.expectEqual()
            try fleet.script(1, "[ \"$(cat a.rtfd/TXT)\" = one ]; [ ! -e .conflicts/a.rtfd ]")
        }
    }
}

extension Fleet {
    /// Makes a document "base" and saves "by 0" and "by 1" on the devices without synchronisation
    /// in between; the second wins.
    func conflict(_ path: String) throws {
        try put(0, path, "base")
        try settle()
        try offline(0)
        try put(0, path, "by 0")
        try devices[0].waitForDisk()
        try put(1, path, "by 1")
        try settle([1])
        try online(0)
        try settle()
    }

    /// Runs a shell script in a device's mount, with our programs and two functions: `no` for a
    /// command that must fail, `none` for output that must name no hidden directory.
    func script(_ index: Int, _ text: String) throws {
        try shell(
            index,
            """
            export PATH="\(Fleet.path)"
            no() { if "$@"; then echo "went well: $*" >&2; return 1; fi; }
            none() { if grep -E '\\.(conflicts|versions)'; then return 1; fi; }
            \(text)
            """)
    }

    static var path: String { "\(Programs.directory):/usr/local/bin:/usr/bin:/bin" }

    func history(_ index: Int, _ path: String) throws -> HistoryReport {
        let place = try MountedPath(FilePath("\(devices[index].path)/\(path)"))
        return try ControlClient(socket: place.socket).ask(
            Request(.versions, path: place.components), as: HistoryReport.self)
    }

    func expect(_ path: String, _ text: String, conflicts: [String]) throws {
        for index in devices.indices {
            #expect(self.text(index, path) == text, "on device \(index)")
            #expect(try self.conflicts(index, path) == conflicts, "on device \(index)")
        }
    }
}
