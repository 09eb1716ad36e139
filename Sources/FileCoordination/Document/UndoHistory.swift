import Foundation

/// Remembers how to undo and redo what the user did.
///
/// It is modelled on `UndoManager` of Apple's Foundation, which Linux lacks. Everything that is
/// registered during one run of the main actor is one group, which one ``undo()`` undoes, unless
/// ``groupsByEvent`` is false. The history of a document (``Document/undoManager``) reports every
/// change to it.
///
///     func rename(to new: String) {
///         let old = name
///         undoManager.registerUndo(withTarget: self) { $0.rename(to: old) }
///         undoManager.setActionName("Rename")
///         name = new
///     }
@MainActor public final class UndoHistory {
    private typealias Action = (target: () -> AnyObject?, run: @MainActor () -> Void)

    private struct Group {
        var actions: [Action] = []
        var name = ""
    }

    private enum Activity { case none, undoing, redoing }

    private var undoStack: [Group] = []
    private var redoStack: [Group] = []
    private var open: [Group] = []
    private var isEventGroup = false
    private var activity = Activity.none
    private var disabled = 0

    enum HistoryEvent { case registered, lastActionExtended, undone, redone }
    /// Reports to the document.
    var onEvent: (HistoryEvent) -> Void = { _ in }

    /// An empty history.
    public init() {}

    /// Whether everything that is registered during one run of the main actor is a group. If false,
    /// registering outside of a group is a programming error and ends the program.
    public var groupsByEvent = true

    /// The number of groups to keep; the oldest are removed. 0, the default, keeps all.
    public var levelsOfUndo = 0 {
        didSet { forgetOldest() }
    }

    // MARK: Registering

    /// Registers how to undo what is being done or, while undoing, how to redo it. The target is
    /// not kept alive; when it is gone, nothing is undone.
    public func registerUndo<Target: AnyObject>(
        withTarget target: Target, handler: @escaping @MainActor (Target) -> Void
    ) {
        guard isUndoRegistrationEnabled else { return }
        if open.isEmpty {
            precondition(groupsByEvent, "begin an undo group first, or let groupsByEvent be true")
            beginUndoGrouping()
            isEventGroup = true
            Task { self.endEventGroup() }
        }
        let isFirst = open.allSatisfy { $0.actions.isEmpty }
        let action: Action = (
            { [weak target] in target }, { [weak target] in if let target { handler(target) } }
        )
        open[open.count - 1].actions.append(action)
        guard activity == .none else { return }
        redoStack = []
        onEvent(isFirst ? .registered : .lastActionExtended)
    }

    /// Whether registered actions are remembered.
    public var isUndoRegistrationEnabled: Bool { disabled == 0 }
    /// Stops remembering, until ``enableUndoRegistration()`` was called as often as this.
    public func disableUndoRegistration() { disabled += 1 }
    /// Ends one ``disableUndoRegistration()``. Without one it is a programming error and ends the
    /// program.
    public func enableUndoRegistration() {
        precondition(disabled > 0, "enableUndoRegistration() without disableUndoRegistration()")
        disabled -= 1
    }

    // MARK: Groups

    /// Begins a group: what is registered in it is undone together.
    public func beginUndoGrouping() { open.append(Group()) }

    /// Ends the innermost group. Without one it is a programming error and ends the program.
    public func endUndoGrouping() {
        precondition(!open.isEmpty, "endUndoGrouping() without beginUndoGrouping()")
        let group = open.removeLast()
        if open.isEmpty { isEventGroup = false }
        guard !group.actions.isEmpty else { return }
        if open.isEmpty {
            if activity == .undoing { redoStack.append(group) } else { undoStack.append(group) }
            forgetOldest()
        } else {
            open[open.count - 1].actions += group.actions
            if open[open.count - 1].name.isEmpty { open[open.count - 1].name = group.name }
        }
    }

    /// The number of open groups, one within the other.
    public var groupingLevel: Int { open.count }

    /// Ends the automatic group, if no other group is open.
    func endEventGroup() {
        if isEventGroup, open.count == 1 { endUndoGrouping() }
    }

    private func forgetOldest() {
        guard levelsOfUndo > 0 else { return }
        undoStack.removeFirst(max(0, undoStack.count - levelsOfUndo))
        redoStack.removeFirst(max(0, redoStack.count - levelsOfUndo))
    }

    // MARK: Undoing

    /// Whether there is something to undo.
    public var canUndo: Bool { !undoStack.isEmpty || open.contains { !$0.actions.isEmpty } }
    /// Whether there is something to redo.
    public var canRedo: Bool { !redoStack.isEmpty }
    /// Whether handlers are running in order to undo.
    public var isUndoing: Bool { activity == .undoing }
    /// Whether handlers are running in order to redo.
    public var isRedoing: Bool { activity == .redoing }

    /// Undoes the last group, beginning with its last action. Within a group that has not been
    /// ended it is a programming error and ends the program.
    public func undo() {
        endEventGroup()
        precondition(open.isEmpty, "undo() within a group: end it first")
        guard let group = undoStack.popLast() else { return }
        run(group, .undoing)
        onEvent(.undone)
    }

    /// Redoes the group that was undone last.
    public func redo() {
        endEventGroup()
        precondition(open.isEmpty, "redo() within a group: end it first")
        guard let group = redoStack.popLast() else { return }
        run(group, .redoing)
        onEvent(.redone)
    }

    private func run(_ group: Group, _ activity: Activity) {
        self.activity = activity
        beginUndoGrouping()
        open[0].name = group.name
        for action in group.actions.reversed() { action.run() }
        endUndoGrouping()
        self.activity = .none
    }

    /// Removes everything.
    public func removeAllActions() {
        (undoStack, redoStack, open) = ([], [], open.map { _ in Group() })
    }

    /// Removes all actions of a target.
    public func removeAllActions(withTarget target: AnyObject) {
        func without(_ groups: [Group], keepsEmpty: Bool = false) -> [Group] {
            groups.compactMap { group in
                var group = group
                group.actions.removeAll { $0.target() === target }
                return group.actions.isEmpty && !keepsEmpty ? nil : group
            }
        }
        (undoStack, redoStack) = (without(undoStack), without(redoStack))
        open = without(open, keepsEmpty: true)
    }

    // MARK: Names

    /// Names what is being done or undone, for a menu: `Rename`.
    public func setActionName(_ name: String) {
        if !open.isEmpty {
            open[0].name = name
        } else if !undoStack.isEmpty {
            undoStack[undoStack.count - 1].name = name
        }
    }

    /// The name of what ``undo()`` would undo; empty when it has no name or there is nothing.
    public var undoActionName: String {
        open.first { !$0.actions.isEmpty }?.name ?? undoStack.last?.name ?? ""
    }
    /// The name of what ``redo()`` would redo; empty when it has no name or there is nothing.
    public var redoActionName: String { redoStack.last?.name ?? "" }
}
