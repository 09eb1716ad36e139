import ArgumentParser
import CLinux
import Control
import Glibc
import Model

@main
struct Concord: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "concord",
        abstract: "Mounts a volume whose documents are plain files, with a version at every save.",
        discussion: """
            A volume is kept in a store, a directory on a local disk. Mounted, it is a directory \
            like any other in which every save by any program is kept as a version. fsctl shows \
            and restores the versions.

            EXAMPLES
              mkdir ~/Documents.c && concord mount ~/Documents.c
              concord mount --store /srv/store -o allow_other,name=Team /mnt/team
              concord unmount /mnt/team
            """,
        version: "concord 0.1",
        subcommands: [
            MountCommand.self, UnmountCommand.self, HubCommand.self, ApplierCommand.self,
            WatchdogCommand.self,
        ])

    static func main() {
        do {
            var command = try parseAsRoot()
            try command.run()
        } catch let error as VolumeError {
            printError(error.message)
            Glibc.exit(Control.ExitCode(error.code).rawValue)
        } catch {
            guard exitCode(for: error) == .validationFailure else { exit(withError: error) }
            printText(fullMessage(for: error))
            Glibc.exit(Control.ExitCode.usage.rawValue)
        }
    }
}

/// Prints one sentence on standard error, after the program's name.
func printError(_ sentence: String) { printText("concord: \(sentence)") }

private func printText(_ text: String) {
    let bytes = Array((text + "\n").utf8)
    _ = write(2, bytes, bytes.count)
}
