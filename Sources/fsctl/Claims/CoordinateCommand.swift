import ArgumentParser
import CLinux
import Control
import Glibc
import Model

struct CoordinateCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "coordinate",
        abstract: "Run a command while you hold a claim on documents: programs that use them save "
            + "first and wait until the command has ended.",
        usage: """
            fsctl coordinate [--no-wait] [--timeout SECONDS] [--everywhere] [--quiet] [--literal] \
            {read|write} [WAY] PATH … [{read|write} …] -- COMMAND ARGUMENT …
            """,
        discussion: """
            Each "read" or "write" is followed by its options and by one or several paths. All \
            claims are granted together. A file that is itself named so is ./read or ./write.

              read   --without-changes      programs need not save unsaved changes first
                     --resolve-symlink      claim what a symlink points to
                     --metadata-only        read only what needs no download
                     --uploading            hold the claim only until a snapshot is taken
              write  --merging              reads too: other programs save first
                     --moving, --deleting   the item will be moved or deleted
                     --replacing            another item will take its place, or be new there
                     --content-independent  only labels, times and the like change

            Documents may be renamed while the command waits. The command gets the current \
            paths in its arguments, where {1}, {2}, … stand for one path each and {} for all of \
            them (or, inside a word, for the only one), and in CONCORD_PATH_1, CONCORD_PATH_2, \
            … and CONCORD_PATHS (one on each line). Paths on several volumes are claimed one \
            volume after the other, always in the same order; other paths need no claim.

            With --everywhere the claim holds on all devices of the volume: programs elsewhere \
            are asked to save and let go of the documents that are written, and what others \
            save there meanwhile becomes a conflict version. It needs the hub.

            The exit status is the command's; 126 and 127 when it cannot be started, 4 when \
            --no-wait would have to wait, 10 after --timeout, 13 when another program could not \
            save or release its claim, 130 when interrupted while waiting.

            EXAMPLES
              fsctl coordinate read letter.odt -- cp {} /backup/
              fsctl coordinate write notes.txt -- sed -i s/old/new/ {}
              fsctl coordinate write --moving a.txt write --replacing b.txt -- mv {1} {2}
            """)

    @Flag(name: .customLong("no-wait"), help: "Fail immediately if a conflicting claim is held.")
    var isImpatient = false

    @Option(help: "Fail when the claims were not granted after this many seconds.")
    var timeout: Double?

    @Flag(help: "Claim the documents that are written on all devices of the volume.")
    var everywhere = false

    @Flag(help: "Do not report paths that are on no volume.")
    var quiet = false

    @Flag(help: "Do not replace {} and {1} in the arguments.")
    var literal = false

    @Argument(
        parsing: .captureForPassthrough, help: "The claims, then -- and the command.",
        completion: .file())
    var words: [String] = []

    func validate() throws {
        if let help = words.prefix(while: { $0 != "--" }).first(where: {
            ["-h", "--help"].contains($0)
        }) {
            _ = help
            throw CleanExit.helpRequest(self)
        }
        if let timeout, !(timeout.isFinite && timeout >= 0) {
            throw ValidationError("The timeout is a number of seconds, 0 or more.")
        }
        do throws(CoordinateArguments.UsageError) { _ = try CoordinateArguments(words) } catch {
            throw ValidationError(error.message)
        }
    }

    func run() throws {
        // This must come before any thread starts: a thread inherits the signal mask, and one that
        // was started earlier would receive the signals itself.
        let signals = try Signals()
        let line = try CoordinateArguments(words)
        let given = line.accesses.map { RawArgument.path($0.path) }
        var paths = given
        var places: [String: [(index: Int, place: MountedPath)]] = [:]
        for (index, path) in given.enumerated() {
            if let place = try place(of: path, line.accesses[index].way) {
                places[place.socket, default: []].append((index, place))
            } else if !quiet {
                Terminal.printError("fsctl: \(path) is on no Concord volume and needs no claim")
            }
        }
        let deadline = timeout.map {
            cl_clock_monotonic_ns() + Timestamp.span(seconds: min($0, 1e9))
        }
        var claims: [VolumeClaim] = []
        // Every caller claims the volumes in the same order, so two callers cannot deadlock.
        for (_, items) in places.sorted(by: { $0.key < $1.key }) {
            let claim = try VolumeClaim(on: items.map(\.place))
            let now = try claim.begin(
                items.map { line.accesses[$0.index].way.field($0.place.components) },
                waits: !isImpatient, everywhere: everywhere, deadline: deadline,
                signals: signals)
            // An item that was not moved keeps the name that the user wrote.
            for (item, path) in zip(items, now) where path != item.place.path {
                paths[item.index] = path
            }
            claims.append(claim)
        }
        let status = CoordinateCommand.command(line, literal, paths).run(signals: signals)
        CoordinateCommand.end(claims)
        throw ArgumentParser.ExitCode(status)
    }

    /// The place that a claim on `path` concerns; nil when it is on no volume. A symlink outside of
    /// volumes counts only where the claim resolves it.
    private func place(of path: FilePath, _ way: CoordinateArguments.Way) throws(VolumeError)
        -> MountedPath?
    {
        if let place = try MountedPath(ifOnVolume: path) { return place }
        guard case .reading(let options) = way, options.contains(.resolvesSymbolicLink),
            let target = try? path.resolved()
        else { return nil }
        return try MountedPath(ifOnVolume: target)
    }

    private static func command(_ line: CoordinateArguments, _ isLiteral: Bool, _ paths: [FilePath])
        -> SupervisedCommand
    {
        for (index, path) in paths.enumerated() {
            path.withCString { _ = setenv("CONCORD_PATH_\(index + 1)", $0, 1) }
        }
        let all = FilePath(bytes: Array(paths.map(\.bytes).joined(separator: [0x0A])))
        all.withCString { _ = setenv("CONCORD_PATHS", $0, 1) }
        let words = line.command.map(RawArgument.path)
        return SupervisedCommand(
            words: isLiteral ? words : CommandTemplate(words).filled(with: paths))
    }

    private static func end(_ claims: [VolumeClaim]) {
        for claim in claims.reversed() {
            do throws(VolumeError) { try claim.end() } catch {
                // The command has already run, so its exit status is what the caller gets.
                Terminal.printError("fsctl: the claim ended early: \(error.message)")
            }
        }
    }
}
