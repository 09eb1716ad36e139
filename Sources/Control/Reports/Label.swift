import Model

/// A label that a person gives a version.
package enum Label {
    /// Checks a label. It must not look like another way to name a version, such as a number or an
    /// offset.
    package static func check(_ label: String) throws(VolumeError) {
        let scalars = label.unicodeScalars
        guard !label.isEmpty, label.utf8.count <= 255,
            scalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F })
        else {
            throw VolumeError(.invalid, "a label has 1 to 255 bytes and no control characters")
        }
        guard Int(label) == nil, !label.hasPrefix("-") else {
            throw VolumeError(
                .invalid,
                "\"\(label)\" looks like a number or an option: choose a label that begins "
                    + "with a letter"
            )
        }
    }
}
