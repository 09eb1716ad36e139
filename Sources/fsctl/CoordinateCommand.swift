import ArgumentParser
import CLinux
import Control
import Glibc
import Model

struct CoordinateCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "coordinate",
        abstract: "Run a command while documents are yours: after programs that use them have "
            + "saved, before others go on.",
        usage: """
            fsctl coordinate [--no-wait] [--timeout SECONDS] [--quiet] [--literal] \
            {read|write} [WAY] PATH … [{read|write} …] -- COMMAND ARGUMENT …
            """,
        discussion: """
            Each "read" or "write" is followed by how, and by one or several paths; all are had \
            at once. A path that is called so itself is ./read or ./write.

              read   --without-changes      what is unsaved elsewhere need not be
                     --resolve-symlink      what a symlink points to
                     --metadata-only        only what needs no download
                     --uploading            only until a snapshot is taken
              write  --merging              reads too: others save first
                     --moving, --deleting   the item will be moved, or be no more
                     --replacing            something else will be in its place, or is new there
                     --content-independent  only labels, times and the like

            Documents may be renamed while the command waits. It finds them in its arguments, \
            where {1}, {2}, … stand for the paths as they are then and {} for all of them (or, \
            inside a word, for the only one), and in CONCORD_PATH_1, CONCORD_PATH_2, … and \
            CONCORD_PATHS (one a line). Paths on two volumes are claimed one volume after the \
            other, always in the same order; those on none need no turn.

            Ends with the command's exit status; 126 and 127 when it cannot be started, 4 when \
            --no-wait would have to wait, 10 after --timeout, 13 when another program could not \
            save or let go, 130 when interrupted while waiting.

            EXAMPLES
              fsctl coordinate read letter.odt -- cp {} /backup/
              fsctl coordinate write notes.txt -- sed -i s/old/new/ {}
              fsctl coordinate write --moving a.txt write --replacing b.txt -- mv {1} {2}
            """)

    @Flag(name: .customLong("no-wait"), help: "Give up at once where others have their turn.")
    var isImpatient = false

    @Option(help: "Seconds after which to give up waiting.")
    var timeout: Double?

    @Flag(help: "Say nothing of paths that are on no volume.")
    var quiet = false

    @Flag(help: "Leave {} and {1} in the arguments as they are.")
    var literal = false

    @Argument(
        parsing: .captureForPassthrough, help: "What for, and the command.", completion: .file())
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
        do throws(CoordinateLine.Mistake) { _ = try CoordinateLine(words) } catch {
            throw ValidationError(error.message)
        }
    }

    func run() throws {
        // Before there are threads, which would take the signals.
        let signals = try Signals()
        let line = try CoordinateLine(words)
        let given = line.accesses.map { RawArgument.path($0.path) }
        var paths = given
        var places: [String: [(index: Int, place: MountedPath)]] = [:]
        for (index, path) in given.enumerated() {
            if let place = try place(of: path, line.accesses[index].way) {
                places[place.socket, default: []].append((index, place))
            } else if !quiet {
                Terminal.complain("fsctl: \(path) is on no Concord volume and needs no turn")
            }
        }
        let deadline = timeout.map {
            cl_clock_monotonic_ns() + Timestamp.span(seconds: min($0, 1e9))
        }
        var claims: [VolumeClaim] = []
        // In one order whoever asks, so that nobody waits for each other.
        for (_, items) in places.sorted(by: { $0.key < $1.key }) {
            let claim = try VolumeClaim(on: items.map(\.place))
            let now = try claim.begin(
                items.map { line.accesses[$0.index].way.field($0.place.components) },
                waits: !isImpatient, deadline: deadline, signals: signals)
            // Who was not moved keeps the name that the user gave it.
            for (item, path) in zip(items, now) where path != item.place.path {
                paths[item.index] = path
            }
            claims.append(claim)
        }
        let status = CoordinateCommand.command(line, literal, paths).run(signals: signals)
        CoordinateCommand.end(claims)
        throw ArgumentParser.ExitCode(status)
    }

    /// A symlink from elsewhere onto a volume counts where it is followed.
    private func place(of path: FilePath, _ way: CoordinateLine.Way) throws(VolumeError)
        -> MountedPath?
    {
        if let place = try MountedPath(ifOnVolume: path) { return place }
        guard case .reading(let options) = way, options.contains(.resolvesSymbolicLink),
            let target = try? path.resolved()
        else { return nil }
        return try MountedPath(ifOnVolume: target)
    }

    private static func command(_ line: CoordinateLine, _ isLiteral: Bool, _ paths: [FilePath])
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
                // The command has run: its status counts.
                Terminal.complain("fsctl: the turn ended early: \(error.message)")
            }
        }
    }
}
