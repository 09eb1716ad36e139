import CLinux
import Coordination
import Glibc
import Model
import SystemCalls
import Volume

// The mount's part in claims of clients of the control socket.
extension MountSession {
    /// The path with these names, with the information which directories in it are packages.
    package func path(_ names: [Name]) -> Path { driver.tree.path(names) }

    package func isDirectory(_ names: [Name]) -> Bool { driver.tree.isDirectory(names) }

    /// Whether a process is the applier.
    package func isApplier(_ process: Int32) -> Bool { driver.applierGuard.isApplier(process) }

    /// Limits how long a waiting claim waits for readers that may not write the document: no longer
    /// than for a program that merely has it open for reading.
    package func stopWaitingForYielding(_ claim: ClaimID) {
        driver.arbitration.stopWaitingForYielding(claim)
    }

    /// Follows symlinks at the end of a path.
    ///
    /// - Throws: `.invalid` if a symlink leads out of the volume, or there are too many.
    package func resolve(_ names: [Name]) throws(VolumeError) -> [Name] {
        var names = names
        for _ in 0..<40 {
            guard let target = driver.tree.linkTarget(names) else { return names }
            var base = Array(names.dropLast())
            if target.first == UInt8(ascii: "/") {
                let inside = mountPoint.utf8 + [UInt8(ascii: "/")]
                guard target.starts(with: inside) else {
                    throw VolumeError(.invalid, "The symlink leads out of the volume.")
                }
                base = []
            }
            let rest =
                target.first == UInt8(ascii: "/")
                ? target.dropFirst(mountPoint.utf8.count) : target[...]
            for part in rest.split(separator: UInt8(ascii: "/")) {
                switch Array(part) {
                case [0x2E]: continue
                case [0x2E, 0x2E]: _ = base.popLast()
                default: base.append(Name(bytes: Array(part)))
                }
            }
            names = base
        }
        throw VolumeError(.invalid, "There are too many symlinks, one after the other (ELOOP).")
    }

    /// Called when a coordinated write of these paths begins.
    package func willChange(_ paths: [Path]) {
        for path in paths {
            _ = driver.arbitration.reportedChanges.change(
                path.names, to: driver.tree.changeStamp(path.names))
        }
    }

    /// Called when a coordinated write of these paths ends. Records the packages among them as they
    /// are now, before other programs may write to them, and then calls `done`; at once if there
    /// are none.
    package func record(packagesOf paths: [Path], _ done: @escaping @Sendable () -> Void) {
        var packages: Set<[Name]> = []
        for path in paths {
            // A package that was created under the claim did not exist when it began.
            let steps = driver.tree.path(path.names).steps
            let index = steps.firstIndex { $0.isPackage && !Volume.isWeakPackage(name: $0.name) }
            if let index { packages.insert(steps[...index].map(\.name)) }
        }
        guard !packages.isEmpty else { return done() }
        driver.parking.runDetached(on: .questions) { [driver, packages] in
            for package in packages { driver.volume.safety.recordPackage(at: package) }
            done()
        }
    }

    /// Called when a coordinated write of these paths ends: notifies presenters of what has
    /// changed.
    package func didChange(_ paths: [Path], by own: Set<PresenterID>, process: Int32) {
        for path in paths where !path.steps.isEmpty {
            let changeStamp = driver.tree.changeStamp(path.names)
            if let changeStamp { driver.opens.endCoordinatedWrite(inode: changeStamp.inode) }
            guard driver.arbitration.reportedChanges.change(path.names, to: changeStamp) else {
                continue
            }
            driver.arbitration.arbiter.tell(
                changeStamp == nil ? .removed(path) : .changed(path), by: own, process: process,
                program: program(process))
        }
    }

    package func program(_ process: Int32) -> String { driver.callers.programs.name(of: process) }

    /// What a client of the control socket works in.
    package func workSession(of process: Int32, uid: UInt32) -> WorkSession? {
        driver.callers.sessions.session(of: process, uid: uid)
    }

    package static func isAncestor(_ process: Int32, of other: Int32) -> Bool {
        ProcessAncestry.line(of: other).contains(process)
    }

    /// Whether one of two processes is an ancestor of the other, or both belong to one program.
    package static func areRelated(_ process: Int32, _ other: Int32) -> Bool {
        ProcessAncestry.share(ProcessAncestry.line(of: process), ProcessAncestry.line(of: other))
    }

    /// Runs `body` later, unless the volume is unmounted first. It must be quick.
    package func later(seconds: Double, _ body: @escaping @Sendable () -> Void) {
        driver.arbitration.timers.after(seconds: seconds, body)
    }

    /// The documents that programs edit: those of which they have these files open for writing, and
    /// those beside which editors have made an owner file.
    ///
    /// - Parameter hasLetGo: Whether the thread that made an owner file has let go of the document.
    package func editedPaths(
        openFiles inodes: [UInt64], hasLetGo: ([Name], Int32) -> Bool
    ) -> [[Name]] {
        let nodes = driver.tree.nodes
        let files = inodes.compactMap { inode -> (node: Node, path: [Name])? in
            guard let node = nodes.known(inode), let path = nodes.path(of: node) else { return nil }
            return (node, path)
        }
        let readers = driver.parts.ownerFileReaders.processes(reading: Set(files.map(\.path)))
        let edited = files.filter { file in
            readers[file.path].map { driver.opens.isWritten(file.node, exceptBy: $0) } ?? true
        }
        let made = driver.parts.madeOwnerFiles.documents.filter { !hasLetGo($0.path, $0.maker) }
        return edited.map(\.path) + made.map(\.path)
    }

    /// The programs that wait for editors on other devices.
    package func editorReports(at names: [Name]?) -> [LeaseReport] {
        let now = (cl_clock_realtime_ns(), cl_clock_monotonic_ns())
        return driver.arbitration.awaitingEditors.compactMap { open in
            let (path, process) = (open.path, open.opening.caller.process)
            guard names.map({ path.starts(with: $0) }) ?? true else { return nil }
            let behind = open.awaitedEditors.map {
                LeaseReport.Behind(
                    process: 0, program: "\($0.user) on \($0.deviceName)", why: "edits it there")
            }
            return LeaseReport(
                path: path, access: open.opening.kind.text, process: process,
                program: program(process), since: now.0 - (now.1 - open.since), isWaiting: true,
                behind: behind)
        }
    }

    /// The programs that have files open which others wait for, and the waiting ones. With a path,
    /// all that have the file open.
    package func leaseReports(at names: [Name]?) -> [LeaseReport] {
        var found = driver.arbitration.waitedFor.map { ($0.state, $0.path) }
        if let names, let changeStamp = driver.tree.changeStamp(names),
            let node = driver.tree.nodes.known(changeStamp.inode),
            let state = driver.tree.nodes.locked({ node.opened }),
            !found.contains(where: { $0.0 === state })
        {
            found.append((state, names))
        }
        let now = (cl_clock_realtime_ns(), cl_clock_monotonic_ns())
        return found.flatMap { state, path -> [LeaseReport] in
            guard names == nil || path == names || path.starts(with: names!) else { return [] }
            let (holders, waiters) = state.leases.withLock { ($0.holders, $0.waiters) }
            let ahead = holders.filter { !$0.hasLapsed }.map {
                LeaseReport.Behind(process: $0.process, program: program($0.process))
            }
            return holders.map {
                LeaseReport(
                    path: path, access: $0.kind.text, process: $0.process,
                    program: program($0.process), since: now.0 - (now.1 - $0.since),
                    isWaiting: false, behind: [])
            }
                + waiters.map {
                    let process = $0.open.opening.caller.process
                    return LeaseReport(
                        path: path, access: $0.open.opening.kind.text, process: process,
                        program: program(process), since: now.0 - (now.1 - $0.since),
                        isWaiting: true, behind: ahead)
                }
        }
    }
}

/// A program that has a file open, or waits to open it.
package struct LeaseReport: Sendable {
    package struct Behind: Sendable {
        package var process: Int32
        package var program: String
        package var why = "has it open"
    }

    package var path: [Name]
    /// `read`, `write` or `append`.
    package var access: String
    package var process: Int32
    package var program: String
    /// Nanoseconds since 1970.
    package var since: Int64
    package var isWaiting: Bool
    package var behind: [Behind]
}

extension ImplicitLeases.Kind {
    fileprivate var text: String {
        switch self {
        case .reader: "read"
        case .writer: "write"
        case .appender: "append"
        }
    }
}
