import ArgumentParser
import Control
import Glibc
import Model

@main
struct Fsctl: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fsctl",
        abstract: "Shows, restores, merges and coordinates the documents of a Concord volume.",
        discussion: """
            VERSION is a number (fsctl versions lists them), an offset (-1 is the one before \
            the current), or a label.

            EXAMPLES
              fsctl versions letter.odt
              fsctl diff notes.txt -1
              fsctl restore notes.txt 3
              fsctl undelete old/notes.txt
              fsctl resolve notes.txt --keep both
              fsctl coordinate write notes.txt -- sort -o {} {}
            """,
        version: "fsctl 0.1",
        subcommands: [
            StatusCommand.self, VersionsCommand.self, ShowCommand.self, DiffCommand.self,
            RestoreCommand.self, ConflictsCommand.self, ResolveCommand.self, MergeCommand.self,
            UndeleteCommand.self,
            RewindCommand.self,
            NameCommand.self, ForgetCommand.self, PurgeCommand.self,
            WaitCommand.self, CoordinateCommand.self, LocksCommand.self, WhoCommand.self,
            PresentCommand.self, WatchCommand.self, SigninCommand.self, SignoutCommand.self,
            IdentityCommand.self,
            DevicesCommand.self, MembersCommand.self, VolumesCommand.self, ShareCommand.self,
            OfflineCommand.self,
            OnlineCommand.self, DownloadCommand.self,
            EvictCommand.self, PinCommand.self, UnpinCommand.self, PinsCommand.self,
            ActivityCommand.self,
            LimitCommand.self, BrakeCommand.self, DoctorCommand.self, StatisticsCommand.self,
            McpCommand.self,
        ])

    /// Without a subcommand, prints the help, and before it whether documents here are in conflict.
    func run() throws {
        if let report = try? Conflicts(at: ".").report,
            let line = Conflicts.line(report.documents.count, in: "here")
        {
            Terminal.printError(line)
        }
        throw CleanExit.helpRequest(self)
    }

    static func main() {
        do {
            let arguments = VersionSpecifier.escapingOffsets(
                Array(CommandLine.arguments.dropFirst()))
            var command = try parseAsRoot(arguments)
            try command.run()
        } catch let error as VolumeError {
            Terminal.clearProgress()
            Terminal.printError("fsctl: \(error.message)")
            Glibc.exit(Control.ExitCode(error.code).rawValue)
        } catch let code as ArgumentParser.ExitCode {
            Glibc.exit(code.rawValue)
        } catch {
            guard exitCode(for: error) == .validationFailure else { exit(withError: error) }
            Terminal.printError(fullMessage(for: error))
            Glibc.exit(Control.ExitCode.usage.rawValue)
        }
    }
}

/// The options that every subcommand takes.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON, with the keys of the control protocol.")
    var json = false

    /// Prints `value` as JSON if the user asked for it, else `text`.
    func show(_ value: some Encodable, text: () -> String) {
        Terminal.clearProgress()
        let text = json ? String(decoding: Control.json(value), as: UTF8.self) : text()
        if !text.isEmpty { print(text) }
    }
}
