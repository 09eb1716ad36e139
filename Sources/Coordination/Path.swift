import Model

/// The place of an item, which need not exist: the names from the volume's root, and which of these
/// directories are packages. The root is the empty path.
package struct Path: Hashable, Sendable {
    package struct Step: Hashable, Sendable {
        package var name: Name
        package var isPackage: Bool

        package init(_ name: Name, isPackage: Bool = false) {
            self.name = name
            self.isPackage = isPackage
        }
    }

    package var steps: [Step]

    package init(_ steps: [Step]) { self.steps = steps }

    /// Makes a path on which no directory counts as a package.
    package init(plain names: [Name]) { steps = names.map { Step($0) } }

    package var names: [Name] { steps.map(\.name) }

    package func isBelow(_ other: Path) -> Bool {
        steps.count > other.steps.count && isInLine(with: other)
    }

    /// Whether the two are equal or one is below the other.
    package func isInLine(with other: Path) -> Bool {
        zip(steps, other.steps).allSatisfy { $0.name == $1.name }
    }
}
