import HubProtocol
import Journal
import Model
import Reconcile
import Volume

/// Puts adjustments into the tree, as steps of the applier. Only the engine's thread uses it.
final class AdjustmentApplier: EnginePart {
    let parts: EngineParts
    private let transfers: TransferQueue
    /// The versions of large contents that are being put into the tree, by the name of the prepared
    /// file.
    private var carried: [String: (revision: Identifier, content: TransferQueue.Prepared)] = [:]

    init(_ parts: EngineParts, _ transfers: TransferQueue) {
        (self.parts, self.transfers) = (parts, transfers)
    }

    /// Applies adjustments. The items of a weak package are applied together under one claim, and
    /// only when all of them are available: `waiting` are the tasks that are not.
    func apply(_ tasks: [AdjustmentTask], _ contents: Contents, waiting: [AdjustmentTask])
        throws(VolumeError)
        -> [AdjustmentOutcome]
    {
        var outcomes = [AdjustmentOutcome](repeating: .later, count: tasks.count)
        let groups = Dictionary(grouping: tasks.indices) { tasks[$0].weakPackage }
        let held = Set(waiting.map(\.weakPackage))
        for (root, indices) in groups.sorted(by: { ($0.key?.count ?? 0) < ($1.key?.count ?? 0) })
        where root == nil || !held.contains(root) {
            let done = try apply(indices.map { tasks[$0] }, contents, together: root)
            for (index, outcome) in zip(indices, done) { outcomes[index] = outcome }
        }
        return outcomes
    }

    private func apply(_ tasks: [AdjustmentTask], _ contents: Contents, together root: [Name]?)
        throws(VolumeError) -> [AdjustmentOutcome]
    {
        var outcomes = [AdjustmentOutcome](repeating: .done, count: tasks.count)
        var steps: [ApplierStep] = []
        var owners: [Int] = []
        var prepared: [String] = []
        for (index, task) in tasks.enumerated() {
            do throws(VolumeError) {
                for step in try applierSteps(task, contents, &prepared) {
                    steps.append(step)
                    owners.append(index)
                }
            } catch {
                outcomes[index] = error.isPassing ? .later : .stuck(error.message)
            }
        }
        if root != nil, outcomes.contains(where: { $0 != .done }) {
            for name in prepared { keepOrDiscard(name, isNeeded: true) }
            return outcomes.map { $0 == .done ? .later : $0 }
        }
        if !prepared.isEmpty { try volume.arrivals.sync() }
        // After a failed step, the later steps of the same item are invalid.
        var results: [ApplierResult] = []
        if !steps.isEmpty { results = tree.apply(steps, together: root) }
        for (owner, result) in zip(owners, results) where outcomes[owner] == .done {
            outcomes[owner] = AdjustmentOutcome(result, tasks[owner])
        }
        for (step, result) in zip(steps, results) {
            guard let name = step.incoming else { continue }
            switch result {
            case .done: carried[name] = nil
            case .open, .changed, .logged: keepOrDiscard(name, isNeeded: true)
            case .gone, .taken, .failed: keepOrDiscard(name, isNeeded: false)
            }
        }
        return outcomes
    }

    /// Takes back a prepared file that was not put into the tree. A large file that is still needed
    /// is kept, so that it is not downloaded again.
    private func keepOrDiscard(_ name: String, isNeeded: Bool) {
        let large = carried.removeValue(forKey: name)
        if isNeeded, let large {
            transfers.keep(large.revision, large.content)
        } else {
            volume.arrivals.discard(name)
        }
    }

    private func applierSteps(
        _ task: AdjustmentTask, _ contents: Contents, _ prepared: inout [String]
    ) throws(VolumeError) -> [ApplierStep] {
        let state = task.adjustment.remote
        let target = TreePlace(task.targetPath, directory: task.targetDirectory)
        var place = TreePlace(task.path, directory: task.directory)
        var steps: [ApplierStep] = []
        for step in task.adjustment.steps {
            switch step {
            case .make:
                let name = try prepareNew(state, contents)
                prepared.append(name)
                steps.append(.make(incoming: name, at: target))
            case .move:
                guard let item = task.item else { continue }
                if let holder = task.holder {
                    steps.append(
                        .swap(place, inode: item.inode, with: target, other: holder.inode))
                } else {
                    steps.append(.move(from: place, inode: item.inode, to: target))
                }
                place = target
            case .contents:
                guard let item = task.item else { continue }
                let name = try prepare(state, contents)
                prepared.append(name)
                steps.append(
                    item.kind == .package
                        ? .replacePackage(
                            incoming: name, at: place, inode: item.inode, changed: item.changed)
                        : .replace(incoming: name, at: place, expected: FileSnapshot(item)))
            case .attributes(let changes):
                // A prepared file already has its attributes.
                guard let item = task.item, !task.adjustment.replaces else { continue }
                let change = TreeChange(changes, state, of: item.kind)
                if change != TreeChange() {
                    steps.append(.change(at: place, inode: item.inode, change))
                }
            case .conflicts: break
            case .remove:
                guard let item = task.item else { continue }
                steps.append(
                    item.kind == .package
                        ? .removePackage(
                            at: place, inode: item.inode, changed: item.changed,
                            aside: volume.arrivals.asideName(for: item.id))
                        : .remove(at: place, expected: FileSnapshot(item)))
            }
        }
        return steps
    }

    /// Prepares a placeholder instead if the disk has no room for the contents.
    private func prepareNew(_ state: ItemState, _ contents: Contents) throws(VolumeError) -> String
    {
        do throws(VolumeError) {
            return try prepare(state, contents)
        } catch {
            guard error.code == .full, state.kind == .file, let current = state.current,
                contents.whole.remove(current.id) != nil
            else { throw error }
            return try prepare(state, contents)
        }
    }

    private func prepare(_ state: ItemState, _ contents: Contents) throws(VolumeError) -> String {
        if let current = state.current, let content = transfers.takePrepared(current.id) {
            carried[content.name] = (current.id, content)
            return content.name
        }
        if let error = state.current.flatMap({ contents.missingVersions[$0.id] }) { throw error }
        return try volume.arrivals.prepare(Arrival(state, contents)) {
            (chunks, file) throws(VolumeError) in
            try contents.write(chunks, to: file)
        }
    }
}

extension AdjustmentOutcome {
    init(_ result: ApplierResult, _ task: AdjustmentTask) {
        switch result {
        case .done: self = .done
        case .changed, .open, .gone: self = .later
        case .logged(let log):
            self = .waits(
                "Changes from the hub wait: the database log \(log) here holds changes that are "
                    + "not in the database. Open and close it with its program: that "
                    + "ends the wait.")
        case .taken:
            let name = task.targetPath.last?.text ?? ""
            self = .stuck(
                "The hub has an item called \(name) here, but a file that exists only on this "
                    + "device has that name: rename the file.")
        case .failed
        where task.item?.kind == .directory && task.adjustment.steps.contains(.remove):
            self = .stuck(
                "It was deleted on another device. It stays here because it contains files of this "
                    + "device alone: move or remove them.")
        case .failed(let words): self = .stuck("It cannot be put into the volume: \(words).")
        }
    }
}

extension Adjustment {
    var replaces: Bool {
        steps.contains { step in
            switch step {
            case .make, .contents: true
            default: false
            }
        }
    }
}

extension ApplierStep {
    var incoming: String? {
        switch self {
        case .make(let name, _), .replace(let name, _, _), .replacePackage(let name, _, _, _): name
        default: nil
        }
    }
}
