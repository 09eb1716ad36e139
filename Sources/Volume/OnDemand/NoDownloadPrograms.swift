/// Programs that open every file they find, such as thumbnailers and indexers. They may not start
/// downloads, or they would download the whole volume.
package struct NoDownloadPrograms: Hashable, Sendable {
    package var patterns: [String]

    package init(_ patterns: [String]) { self.patterns = patterns }

    /// The default list. It has no virus scanners, because a file that they may not read would
    /// count as clean.
    package static let usual = NoDownloadPrograms([
        "tumblerd", "gnome-thumbnail*", "ffmpegthumbnailer", "totem-video-thumbnailer",
        "gdk-pixbuf-thumbnailer", "evince-thumbnailer", "thumbnail.so", "tracker-miner*",
        "tracker-extract*", "localsearch*", "baloo_file*", "updatedb*", "mlocate", "plocate",
        "recollindex",
    ])

    /// File managers, in which GLib looks at the first bytes of a file whose type its name does not
    /// tell. GLib opens it with O_NOATIME, unlike a file manager that copies it. Backup programs do
    /// that, too, so this list has only file managers.
    package static let sniffing = NoDownloadPrograms([
        "nautilus*", "nemo*", "caja*", "thunar*", "Thunar", "pcmanfm*", "gvfsd*",
        "xdg-desktop-por*",
    ])

    /// `program` is the command name as the kernel keeps it: its first 15 bytes.
    package func contains(_ program: String) -> Bool {
        guard !program.isEmpty else { return false }
        return patterns.contains { pattern in
            guard pattern.hasSuffix("*") else {
                return program.utf8.elementsEqual(pattern.utf8.prefix(NoDownloadPrograms.kept))
            }
            return program.utf8.starts(
                with: pattern.utf8.dropLast().prefix(NoDownloadPrograms.kept))
        }
    }

    private static let kept = 15
}
