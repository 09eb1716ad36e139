import Support
import Testing

@testable import FileCoordination

/// The undo history, and the change count of a document.
@MainActor @Suite("Undo and change counts") struct UndoTests {
    /// A model with undo.
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

    @Test("a group is undone as a whole, the last action first, and redone; it has a name")
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

    @Test("after a new change, an undone one cannot be redone")
    func branch() {
        let counter = Counter()
        counter.group("", 1)
        counter.undo.undo()
        #expect(counter.undo.canRedo)
        counter.group("", 2)
        #expect(!counter.undo.canRedo)
    }

    @Test("actions of one run of the main actor are one group, which undo ends")
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

    @Test("nested groups count as one, empty groups as none")
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

    @Test("the oldest groups beyond the limit are removed; while disabled, nothing is remembered")
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

    @Test("targets are not kept alive, and their actions can be removed")
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

    @Test("B7.5: a token clears the changes that were made before it")
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

    @Test("undoing the changes since the save makes it clean, undoing more makes it dirty")
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
        // There are as many changes as when it was saved, but not the same ones.
        count.done()
        #expect(count.isDirty)
    }

    @Test("a save that ends after another branch was begun leaves it dirty for good")
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

    @Test("extending the last change makes the document differ from what was saved")
    func more() {
        var count = ChangeCount()
        count.done()
        count.save(count.token)
        count.extendLastChange()
        #expect(count.isDirty)
        count.undone()
        #expect(count.isDirty)
    }

    @Test("random histories are dirty exactly when the contents differ from the saved ones")
    func random() {
        var random = SeededRandom(seed: 7)
        for _ in 0..<300 {
            var count = ChangeCount()
            // The full history: the changes, as unique numbers.
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
