import ArgumentParser
import Control
import Glibc
import Model
import SystemCalls

struct SetupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "setup",
        abstract: "Ask three questions, mount a volume, and sign in to a hub.",
        discussion: """
            Asks where your documents shall be, with which hub they shall be kept equal (none is \
            an answer, too), and whether the volume shall be mounted at each login. Nothing is \
            changed before the last answer. The command can be said again: what is done already \
            is left as it is.

            Without a terminal the answers are the lines of standard input: the directory, the \
            hub's address, its one-time code, the fingerprint of its certificate, yes or no. \
            After an empty address, the code and the fingerprint are left out.
            """)

    func run() throws {
        let answers = try SetupAnswers.ask()
        let folder = answers.folder
        if answers.isMounted {
            print("concord: \(folder) is mounted already")
        } else {
            try mount(folder, atLogin: answers.mountsAtLogin)
        }
        let place = try MountedPath(folder)
        if let hub = answers.hub { try signIn(to: hub, place) }
        print(
            """
            concord: your documents are in \(folder); every save there is a version
            concord: fsctl status \(folder) says what is safe, fsctl versions FILE lists versions
            """)
    }

    private func mount(_ folder: FilePath, atLogin: Bool) throws {
        if folder.kind == nil, folder.withCString({ mkdir($0, 0o700) }) != 0 {
            throw VolumeError(.system, "\(folder) cannot be made: \(Errno(errno))")
        }
        let login = LoginMount(folder)
        if atLogin, try login.enableBySystemd() {
            print("concord: mounted \(folder), and again at each login, by systemd")
            return
        }
        // The path is absolute, so it does not look like an option.
        let command = try MountCommand.parse([folder.description])
        try command.run()
        guard atLogin else { return }
        let file = try login.enableByAutostart()
        print("concord: your desktop mounts it again at each login (\(file))")
    }

    private func signIn(to hub: SetupAnswers.Hub, _ place: MountedPath) throws(VolumeError) {
        let client = try ControlClient(socket: place.socket)
        let now = try client.ask(Request(.identity), as: IdentityReport.self)
        if let present = now.hub {
            return print("concord: this volume is signed in to \(present) already")
        }
        var request = Request(.signin)
        request.address = hub.address
        request.code = hub.code
        request.fingerprint = hub.fingerprint
        do throws(VolumeError) {
            let report = try client.ask(request, as: IdentityReport.self)
            print("concord: signed in to \(report.hub ?? hub.address) as \(report.user ?? "")")
        } catch {
            throw VolumeError(
                error.code,
                "the volume is mounted, and not signed in: \(error.message). Say concord setup "
                    + "again, or fsctl signin")
        }
    }
}

/// What a person answers to the questions of `concord setup`.
struct SetupAnswers {
    struct Hub {
        let address: String
        let code: String
        let fingerprint: String?
    }

    let folder: FilePath
    /// Whether a volume is mounted there already.
    let isMounted: Bool
    let hub: Hub?
    let mountsAtLogin: Bool

    /// - Throws: `.cancelled` at the end of standard input; `.invalid` for an answer that cannot be
    ///   used, unless there is a terminal, where the question is asked again.
    static func ask() throws(VolumeError) -> SetupAnswers {
        let (folder, isMounted) = try askForFolder()
        let address = try answer(
            "With which hub shall they be kept equal, such as https://hub.example:8420? Enter: "
                + "none", usual: "")
        var hub: Hub?
        if !address.isEmpty {
            let code = try answer("The one-time code that concord hub invite printed?", usual: "")
            let fingerprint = try answer(
                "The fingerprint that it printed? Enter: none, an authority has signed the "
                    + "hub's certificate", usual: "")
            guard !code.isEmpty else {
                throw VolumeError(
                    .invalid, "a hub needs a code: concord hub invite NAME prints one")
            }
            hub = Hub(
                address: address, code: code, fingerprint: fingerprint.isEmpty ? nil : fingerprint)
        }
        let login = isMounted ? "no" : try answer("Mount it at each login? yes or no", usual: "yes")
        return SetupAnswers(
            folder: folder, isMounted: isMounted, hub: hub,
            mountsAtLogin: login.lowercased().hasPrefix("y"))
    }

    private static func askForFolder() throws(VolumeError) -> (FilePath, isMounted: Bool) {
        while true {
            let home = getenv("HOME").map { String(cString: $0) } ?? ""
            let text = try answer("Where shall your documents be?", usual: "\(home)/Concord")
            let path = text.hasPrefix("~/") ? home + text.dropFirst() : text
            let folder = FilePath(path).absolute
            do throws(VolumeError) { return (folder, try isMounted(folder)) } catch {
                guard isatty(0) != 0 else { throw error }
                printError(error.message)
            }
        }
    }

    /// - Throws: `.notFound` or `.invalid` if no volume can be mounted there.
    private static func isMounted(_ folder: FilePath) throws(VolumeError) -> Bool {
        if let place = try MountedPath(ifOnVolume: folder) {
            if place.components.isEmpty { return true }
            throw VolumeError(
                .invalid,
                "\(folder) is inside of the volume at \(place.mountPoint): choose a "
                    + "place outside of it")
        }
        switch folder.kind {
        case nil: return false
        case .directory where names(in: folder)?.isEmpty == true: return false
        case .directory:
            throw VolumeError(
                .invalid,
                "\(folder) is not empty: choose another name, and take its documents "
                    + "over afterwards by concord import \(folder)")
        default: throw VolumeError(.invalid, "\(folder) is not a directory")
        }
    }

    private static func answer(
        _ question: String, usual: String
    ) throws(VolumeError) -> String {
        print(usual.isEmpty ? question : "\(question) [\(usual)]")
        fflush(nil)
        guard let line = readLine() else {
            throw VolumeError(.cancelled, "there was no answer, so nothing was changed")
        }
        let trimmed = line.drop { $0.isWhitespace }
        let end = trimmed.lastIndex { !$0.isWhitespace }
        return end.map { String(trimmed[...$0]) } ?? usual
    }
}
