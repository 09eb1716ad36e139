import Control
import Glibc
import Model
import SystemCalls

/// How a volume of one person is mounted at each login: by a unit of systemd where its user manager
/// runs and the unit is installed, else by the desktop's autostart.
struct LoginMount {
    private let folder: FilePath
    private let home: String
    /// `~/.config`
    private let configuration: FilePath

    init(_ folder: FilePath) {
        self.folder = folder
        home = getenv("HOME").map { String(cString: $0) } ?? "/"
        let given = getenv("XDG_CONFIG_HOME").map { String(cString: $0) } ?? ""
        configuration = FilePath(given.hasPrefix("/") ? given : home + "/.config")
    }

    // MARK: systemd

    /// Mounts it now, too.
    ///
    /// - Returns: False if there is no user manager or no unit.
    /// - Throws: `.system` if the unit could not be started.
    func enableBySystemd() throws(VolumeError) -> Bool {
        guard output(of: ["systemctl", "--user", "cat", "concord@x.service"]) != nil else {
            return false
        }
        let unit = "concord@\(try instance()).service"
        guard output(of: ["systemctl", "--user", "enable", "--now", unit]) != nil else {
            throw VolumeError(
                .system,
                "systemctl --user enable --now \(unit) failed: journalctl --user -u \(unit) says "
                    + "why")
        }
        return true
    }

    /// The name of the unit's instance. The unit mounts `~/NAME` by itself; for another place a
    /// file says so.
    private func instance() throws(VolumeError) -> String {
        let name = folder.name.text
        let isPlain = name.utf8.allSatisfy {
            isalnum(Int32($0)) != 0 && $0 < 128 || $0 == UInt8(ascii: "_")
        }
        if isPlain, folder.parent == FilePath(home), getenv("XDG_DATA_HOME") == nil { return name }
        let words = ["systemd-escape", "--path", "--", folder.description]
        guard let escaped = output(of: words)?.split(separator: "\n").first.map(String.init) else {
            throw VolumeError(.system, "systemd-escape --path \(folder) failed")
        }
        let store = try StorePath.defaultPath(for: folder)
        let places = configuration.appending("systemd").appending("user")
            .appending("concord@\(escaped).service.d").appending("place.conf")
        try write(
            """
            [Service]
            Environment=\(Self.unitWord("MOUNTPOINT=\(folder)"))
            Environment=\(Self.unitWord("STORE=\(store)"))

            """, to: places)
        _ = output(of: ["systemctl", "--user", "daemon-reload"])
        return escaped
    }

    /// A word of a unit's setting (systemd.syntax(7), systemd.unit(5)).
    static func unitWord(_ text: String) -> String {
        var word = ""
        for character in text.unicodeScalars {
            switch character {
            case "\\", "\"": word += "\\\(character)"
            case "%": word += "%%"
            default: word.unicodeScalars.append(character)
            }
        }
        return "\"\(word)\""
    }

    // MARK: The desktop's autostart

    /// - Returns: The file that says so.
    func enableByAutostart() throws(VolumeError) -> FilePath {
        let program: FilePath
        do throws(Errno) { program = try FilePath("/proc/self/exe").resolved() } catch {
            throw VolumeError(.system, "the program's own path is not known: \(error)")
        }
        let words = [program.description, "mount", folder.description].map(Self.entryWord)
        let file = configuration.appending("autostart").appending(
            "concord-\(folder.name.text).desktop")
        try write(
            """
            [Desktop Entry]
            Type=Application
            Name=Concord: \(folder.name.text)
            Exec=\(words.joined(separator: " "))
            NoDisplay=true

            """, to: file)
        return file
    }

    /// A word of `Exec` in a desktop entry. It is quoted by the rules of that key, and then escaped
    /// by the rules that hold for every text in such a file.
    static func entryWord(_ text: String) -> String {
        var word = ""
        for character in text.unicodeScalars {
            switch character {
            case "\\": word += "\\\\\\\\"
            case "\"", "`", "$": word += "\\\\\(character)"
            case "%": word += "%%"
            case "\n": word += "\\n"
            default: word.unicodeScalars.append(character)
            }
        }
        return "\"\(word)\""
    }

    private func write(_ text: String, to file: FilePath) throws(VolumeError) {
        try file.makeParents(mode: 0o700)
        guard let stream = file.withCString({ fopen($0, "we") }) else {
            throw VolumeError(.system, "\(file) cannot be written: \(Errno(errno))")
        }
        fputs(text, stream)
        guard fclose(stream) == 0 else {
            throw VolumeError(.system, "\(file) cannot be written: \(Errno(errno))")
        }
    }
}
