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
            A volume lives in a store, a directory on any local disk. Mounted, it is a \
            directory as any other, in which every save of every program is kept as a version; \
            fsctl shows and restores them.

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
            complain(error.message)
            Glibc.exit(Control.ExitCode(error.code).rawValue)
        } catch {
            guard exitCode(for: error) == .validationFailure else { exit(withError: error) }
            complainPlainly(fullMessage(for: error))
            Glibc.exit(Control.ExitCode.usage.rawValue)
        }
    }
}

/// One sentence on standard error, with the program's name in front.
func complain(_ sentence: String) { complainPlainly("concord: \(sentence)") }

private func complainPlainly(_ text: String) {
    let bytes = Array((text + "\n").utf8)
    _ = write(2, bytes, bytes.count)
}
