import Model
import Synchronization

/// Whether this device's account may only read the volume. The mount refuses changes then; verbs
/// that change documents must ask for it.
package final class ReadOnlyFlag: Sendable {
    private let value = Atomic<Bool>(false)

    package var isSet: Bool { value.load(ordering: .relaxed) }

    package func set(_ isSet: Bool) { value.store(isSet, ordering: .relaxed) }

    /// - Throws: `.denied` if the volume may only be read.
    package func check() throws(VolumeError) {
        guard isSet else { return }
        throw VolumeError(
            .denied,
            "You may only read this volume, so nothing was changed. The volume's owner can make "
                + "you an editor (fsctl members role).")
    }
}
