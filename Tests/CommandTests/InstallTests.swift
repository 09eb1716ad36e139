import Foundation
import Support
import Testing

/// `make uninstall` removes everything that `make install` has installed.
@Suite struct InstallTests {
    private let scratch: Scratch
    private static let packaging = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "Packaging").path

    init() throws { scratch = try Scratch() }

    private func install(_ from: String) throws -> Outcome {
        try Outcome(
            "/bin/sh",
            [
                "\(Self.packaging)/install", from, scratch("root"), "/usr", "/sbin",
                "/lib/systemd/system",
            ])
    }

    private var files: [String] {
        scratch.tree.filter {
            var isDirectory: ObjCBool = false
            let exists = FileManager.default.fileExists(
                atPath: scratch($0), isDirectory: &isDirectory)
            return exists && !isDirectory.boolValue
        }
    }

    @Test func everythingComesAndGoes() throws {
        let placed = try install(Programs.directory)
        #expect(placed.status == 0, "\(placed.errors)")
        for name in ["bin/fsctl", "bin/concord", "share/zsh/vendor-completions/_fsctl"] {
            #expect(files.contains("root/usr/\(name)"))
        }
        for home in ["vim/vimfiles", "nvim/site"] {
            let plugin = "root/usr/share/\(home)/pack/concord/start/concord"
            for name in ["plugin/concord.vim", "autoload/concord.vim", "doc/concord.txt"] {
                #expect(files.contains("\(plugin)/\(name)"))
            }
            let tags = try scratch.text("\(plugin)/doc/tags").split(separator: "\n")
            #expect(tags.contains(":ConcordStatus\tconcord.txt\t/*:ConcordStatus*"))
            #expect(tags.count >= 5 && tags == tags.sorted())
        }
        let removed = try install("--remove")
        #expect(removed.status == 0 && files.isEmpty, "\(removed.errors)\(files)")
    }
}
