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
            SetupCommand.self, MountCommand.self, UnmountCommand.self, ImportCommand.self,
            HubCommand.self, ApplierCommand.self, WatchdogCommand.self,
        ])

    static func main() {
        do {
            var command = try parseAsRoot()
            try command.run()
            end(0)
        } catch let error as VolumeError {
            printError(error.message)
            end(Control.ExitCode(error.code).rawValue)
        } catch {
            guard exitCode(for: error) == .validationFailure else { exit(withError: error) }
            printText(fullMessage(for: error))
            end(Control.ExitCode.usage.rawValue)
        }
    }

    /// Ends the process without the functions that libraries have registered for its end. Threads
    /// whose work is given up still run, and libcrypto's function frees the locks that they use.
    private static func end(_ code: Int32) -> Never {
        fflush(nil)
        _exit(code)
    }
}

/// Prints one sentence on standard error, after the program's name.
func printError(_ sentence: String) { printText("concord: \(sentence)") }

private func printText(_ text: String) {
    let bytes = Array((text + "\n").utf8)
    _ = write(2, bytes, bytes.count)
}
