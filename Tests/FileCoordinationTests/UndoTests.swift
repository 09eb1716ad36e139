import Support
import Testing

@testable import FileCoordination

/// The undo manager, and where a document stands.
@MainActor @Suite("Undo and change counts") struct UndoTests {
    /// A model that can undo.
    @MainActor private final class Counter {
        let undo = UndoHistory()
        private(set) var values: [Int] = []

        func add(_ value: Int) {
            values.append(value)
            undo.registerUndo(withTarget: self) { $0.remove() }
        }

        func remove() {
            let value = values.removeLast()
            undo.registerUndo(withTarget: self) { $0.add(value) }
        }

        func group(_ name: String, _ added: Int...) {
            undo.beginUndoGrouping()
            for value in added { add(value) }
            undo.setActionName(name)
            undo.endUndoGrouping()
        }
    }

    @Test("a group is undone at once, the last first, and done again; names are told")
    func groups() {
        let counter = Counter()
        counter.group("One", 1)
        counter.group("Two and Three", 2, 3)
        #expect(counter.undo.undoActionName == "Two and Three" && !counter.undo.canRedo)
        counter.undo.undo()
        #expect(counter.values == [1])
        #expect(counter.undo.redoActionName == "Two and Three")
        #expect(counter.undo.undoActionName == "One")
        counter.undo.redo()
        #expect(counter.values == [1, 2, 3] && !counter.undo.canRedo)
        counter.undo.undo()
        counter.undo.undo()
        #expect(counter.values.isEmpty && !counter.undo.canUndo)
        counter.undo.undo()
        counter.undo.redo()
        counter.undo.redo()
        #expect(counter.values == [1, 2, 3])
    }

    @Test("what is done after undoing cannot be done again")
    func branch() {
        let counter = Counter()
        counter.group("", 1)
        counter.undo.undo()
        #expect(counter.undo.canRedo)
        counter.group("", 2)
        #expect(!counter.undo.canRedo)
    }

    @Test("what happens in one go is one group; undo ends it")
    func events() async {
        let counter = Counter()
        counter.add(1)
        counter.add(2)
        #expect(counter.undo.groupingLevel == 1)
        await Task {}.value
        while counter.undo.groupingLevel > 0 { await Task.yield() }
        counter.add(3)
        counter.undo.undo()
        #expect(counter.values == [1, 2])
        counter.undo.undo()
        #expect(counter.values.isEmpty)
    }

    @Test("nested groups are one; empty ones are none")
    func nesting() {
        let counter = Counter()
        counter.undo.beginUndoGrouping()
        counter.group("", 1)
        counter.group("", 2)
        counter.undo.endUndoGrouping()
        counter.group("")
        counter.undo.undo()
        #expect(counter.values.isEmpty && !counter.undo.canUndo)
    }

    @Test("levels: the oldest are forgotten; what is disabled is not remembered")
    func levels() {
        let counter = Counter()
        counter.undo.levelsOfUndo = 2
        for value in 0..<5 { counter.group("", value) }
        while counter.undo.canUndo { counter.undo.undo() }
        #expect(counter.values == [0, 1, 2])
        counter.undo.removeAllActions()
        counter.undo.disableUndoRegistration()
        counter.group("", 9)
        counter.undo.enableUndoRegistration()
        #expect(!counter.undo.canUndo)
    }

    @Test("targets are not kept alive, and can be forgotten")
    func targets() {
        let undo = UndoHistory()
        let (one, two) = (Counter(), Counter())
        var undone: [String] = []
        func register(_ target: Counter, _ name: String) {
            undo.beginUndoGrouping()
            undo.registerUndo(withTarget: target) { _ in undone.append(name) }
            undo.endUndoGrouping()
        }
        register(one, "one")
        register(two, "two")
        do {
            let gone = Counter()
            register(gone, "gone")
        }
        undo.undo()
        undo.removeAllActions(withTarget: two)
        undo.undo()
        #expect(undone == ["one"])
    }

    // MARK: Change counts

    @Test("B7.5: a token clears what was done until it was taken")
    func tokens() {
        var count = ChangeCount()
        #expect(!count.isDirty)
        count.done()
        let token = count.token
        count.done()
        count.save(token)
        #expect(count.isDirty)
        count.save(count.token)
        #expect(!count.isDirty)
    }

    @Test("undoing what was done since the save makes it clean, and further makes it dirty")
    func undone() {
        var count = ChangeCount()
        count.done()
        count.save(count.token)
        count.done()
        count.undone()
        #expect(!count.isDirty)
        count.undone()
        #expect(count.isDirty)
        count.redone()
        #expect(!count.isDirty)
        count.undone()
        // As many changes as when it was saved, and not the same ones.
        count.done()
        #expect(count.isDirty)
    }

    @Test("a save that ends after another line was begun leaves it dirty for good")
    func branches() {
        var count = ChangeCount()
        count.done()
        count.done()
        let token = count.token
        count.undone()
        count.done()
        count.save(token)
        #expect(count.isDirty)
        count.undone()
        #expect(count.isDirty)
        count.redone()
        #expect(count.isDirty)
        count.save(count.token)
        #expect(!count.isDirty)
    }

    @Test("a change of the last change is one: what was saved between is not what it is")
    func more() {
        var count = ChangeCount()
        count.done()
        count.save(count.token)
        count.doneMore()
        #expect(count.isDirty)
        count.undone()
        #expect(count.isDirty)
    }

    @Test("random histories are dirty when what was saved is not what is there")
    func random() {
        var random = SeededRandom(seed: 7)
        for _ in 0..<300 {
            var count = ChangeCount()
            // The history in full: what was done, as unique numbers.
            var (line, position, number) = ([Int](), 0, 0)
            var saved: [Int] = []
            var taken: (ChangeCountToken, [Int])?
            for _ in 0..<60 {
                switch Int.random(in: 0..<6, using: &random) {
                case 0, 1:
                    number += 1
                    line = line[..<position] + [number]
                    position += 1
                    count.done()
                case 2 where position > 0:
                    position -= 1
                    count.undone()
                case 3 where position < line.count:
                    position += 1
                    count.redone()
                case 4: taken = (count.token, Array(line[..<position]))
                case 5:
                    if let (token, contents) = taken {
                        count.save(token)
                        saved = contents
                        taken = nil
                    }
                default: break
                }
                let isDirty = saved != Array(line[..<position])
                #expect(count.isDirty == isDirty, "\(saved), \(line) at \(position)")
            }
        }
    }
}
