import Foundation

/// Remembers how to take back what the user did, and how to do it again.
///
/// As `UndoManager` of Foundation on Apple's platforms, which Linux has not. What is registered
/// while nothing else happens on the main actor is one group, which one ``undo()`` takes back,
/// unless ``groupsByEvent`` is false. A document's (``Document/undoManager``) tells it of every
/// change.
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

    enum Happening { case registered, registeredMore, undone, redone }
    /// For the document.
    var happened: (Happening) -> Void = { _ in }

    /// One that remembers nothing yet.
    public init() {}

    /// Whether what is registered in one go on the main actor is one group by itself. When false,
    /// it is a mistake, which ends the program, to register outside of groups.
    public var groupsByEvent = true

    /// How many groups are kept, the newest; 0, as it is, means all.
    public var levelsOfUndo = 0 {
        didSet { forgetOldest() }
    }

    // MARK: Registering

    /// Remembers how something that is being done is undone. While undoing, how it is done again.
    /// The target is not kept alive, and when it is gone there is nothing to undo.
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
        happened(isFirst ? .registered : .registeredMore)
    }

    /// Whether what is registered is remembered.
    public var isUndoRegistrationEnabled: Bool { disabled == 0 }
    /// Until as many calls of ``enableUndoRegistration()`` nothing is remembered.
    public func disableUndoRegistration() { disabled += 1 }
    /// Ends one ``disableUndoRegistration()``; without one it is a mistake that ends the program.
    public func enableUndoRegistration() {
        precondition(disabled > 0, "enableUndoRegistration() without disableUndoRegistration()")
        disabled -= 1
    }

    // MARK: Groups

    /// What is registered from now on is undone together.
    public func beginUndoGrouping() { open.append(Group()) }

    /// Ends the innermost group; without one it is a mistake that ends the program.
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

    /// How many groups are open, one within the other.
    public var groupingLevel: Int { open.count }

    /// Ends the group that nobody opened, if nothing but it is open.
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
    /// Whether there is something to do again.
    public var canRedo: Bool { !redoStack.isEmpty }
    /// Whether handlers run to undo.
    public var isUndoing: Bool { activity == .undoing }
    /// Whether handlers run to do again.
    public var isRedoing: Bool { activity == .redoing }

    /// Takes back the last group, the last registered first. Within a group that was begun and not
    /// ended it is a mistake that ends the program.
    public func undo() {
        endEventGroup()
        precondition(open.isEmpty, "undo() within a group: end it first")
        guard let group = undoStack.popLast() else { return }
        run(group, .undoing)
        happened(.undone)
    }

    /// Does again what was undone last.
    public func redo() {
        endEventGroup()
        precondition(open.isEmpty, "redo() within a group: end it first")
        guard let group = redoStack.popLast() else { return }
        run(group, .redoing)
        happened(.redone)
    }

    private func run(_ group: Group, _ activity: Activity) {
        self.activity = activity
        beginUndoGrouping()
        open[0].name = group.name
        for action in group.actions.reversed() { action.run() }
        endUndoGrouping()
        self.activity = .none
    }

    /// Forgets everything.
    public func removeAllActions() {
        (undoStack, redoStack, open) = ([], [], open.map { _ in Group() })
    }

    /// Forgets what is to be done to a target.
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

    /// What ``undo()`` would take back; empty when it has no name, or there is nothing.
    public var undoActionName: String {
        open.first { !$0.actions.isEmpty }?.name ?? undoStack.last?.name ?? ""
    }
    /// What ``redo()`` would do again; empty when it has no name, or there is nothing.
    public var redoActionName: String { redoStack.last?.name ?? "" }
}
