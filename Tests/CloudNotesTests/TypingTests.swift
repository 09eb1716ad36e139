import Testing

@testable import cloud_notes

/// Keys, and the text that they change.
@Suite("Typing") struct TypingTests {
    private func keys(_ pieces: String...) -> [Key] {
        var reader = KeyReader()
        return pieces.flatMap { reader.read($0.utf8) } + reader.end()
    }

    @Test("keys are read however their bytes are cut into pieces") func pieces() {
        #expect(keys("ab\r") == [.text("ab"), .enter])
        #expect(keys("\u{1B}", "[", "A", "x") == [.up, .text("x")])
        #expect(keys("\u{1B}[3~\u{1B}OB\u{7F}") == [.delete, .down, .backspace])
        #expect(keys("\u{1B}") == [.escape])
        #expect(keys("\u{1B}\u{1B}[D") == [.escape, .left])
        #expect(keys("\u{1B}[99;9Zq\u{03}") == [.text("q"), .control("c")])
        var reader = KeyReader()
        let bytes = Array("é€😀".utf8)
        let read = bytes.flatMap { reader.read([$0]) }
        #expect(read == [.text("é"), .text("€"), .text("😀")])
    }

    @Test("keys change the text and move the cursor") func typing() {
        var buffer = TextBuffer()
        buffer.insert("one\ntwo")
        buffer.deleteBackward()
        #expect(buffer.text == "one\ntw" && buffer.row == 1 && buffer.column == 2)
        let moves = [Key.up, .end, .enter].map { buffer.move($0, page: 9) }
        #expect(moves == [true, true, false] && buffer.row == 0 && buffer.column == 3)
        buffer.deleteForward()
        #expect(buffer.text == "onetw")
        buffer.insert("\r\n")
        #expect(buffer.text == "one\ntw" && buffer.row == 1 && buffer.column == 0)
        buffer.deleteBackward()
        #expect(buffer.text == "onetw")
        buffer.text = "x"
        #expect(buffer.row == 0 && buffer.column == 1)
    }

    @Test("long lines are wrapped, wide characters kept whole, the cursor stays in sight")
    func wrapping() {
        var buffer = TextBuffer()
        buffer.insert("abcdef\n日本語\n")
        let all = buffer.shown(columns: 5, rows: 10)
        #expect(all.lines == ["abcde", "f", "日本", "語", ""])
        #expect(all.cursor == (4, 0))
        let some = buffer.shown(columns: 5, rows: 2)
        #expect(some.lines == ["語", ""] && some.cursor == (1, 0))
    }

    @Test("control characters in a note are not sent to the terminal") func commands() {
        var screen = Screen((20, 3))
        screen.add((.plain, "a\u{1B}[2Jb\u{9B}c"))
        screen.finish("end")
        #expect(screen.drawing.contains("a [2Jb c"))
        #expect(screen.drawing.split(separator: "\r\n").count == 3)
    }
}
