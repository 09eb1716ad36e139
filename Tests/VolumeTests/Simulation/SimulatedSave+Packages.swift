import Glibc
import Model

@testable import Volume

// What programs do with packages. The paths of such a save end with a slash, so that nothing else
// uses what is in the package meanwhile.
extension SimulatedSave {
    /// Makes a package with two files.
    static func makingPackage(
        _ path: String, _ first: [UInt8], _ second: [UInt8], _ program: Program
    ) -> Self {
        SimulatedSave(
            paths: [path + "/"], label: "make \(path)",
            steps: [{ try $0.mkdir(path, by: program) }]
                + writing(path + "/x", first, O_WRONLY | O_CREAT, program)
                + [{ try $0.mkdir(path + "/in", by: program) }]
                + writing(path + "/in/y", second, O_WRONLY | O_CREAT, program)
        ) { _ = $0.makePackage(path) }
    }

    /// Writes a file of the package, or makes one.
    static func writingPart(
        _ path: String, _ file: String, _ content: [UInt8], _ program: Program
    ) -> Self {
        SimulatedSave(
            paths: [path + "/"], label: "write \(file) in \(path)",
            steps: writing(
                path + "/" + file, content, O_WRONLY | O_CREAT | O_TRUNC, program)
        ) { _ in }
    }

    static func replacingPart(
        _ path: String, _ file: String, _ content: [UInt8], draft: String, _ program: Program
    ) -> Self {
        let draft = path + "/" + draft
        return SimulatedSave(
            paths: [path + "/"], label: "replace \(file) in \(path)",
            steps: writing(draft, content, O_WRONLY | O_CREAT | O_EXCL, program) + [
                { try $0.rename(draft, path + "/" + file, by: program) }
            ]
        ) { _ in }
    }

    static func removingPart(_ path: String, _ file: String, _ program: Program) -> Self {
        SimulatedSave(
            paths: [path + "/"], label: "remove \(file) in \(path)",
            steps: [{ try $0.unlink(path + "/" + file, by: program) }]
        ) { _ in }
    }

    static func movingPackage(_ path: String, _ other: String, _ program: Program) -> Self {
        SimulatedSave(
            paths: [path + "/", other + "/"], label: "move \(path) to \(other)",
            steps: [{ try $0.rename(path, other, by: program) }]
        ) { $0.movePackage(path, other) }
    }

    /// Prepares a new package and exchanges both.
    static func exchangingPackage(
        _ path: String, draft: String, _ content: [UInt8], _ program: Program
    ) -> Self {
        SimulatedSave(
            paths: [path + "/", draft + "/"], label: "exchange \(path) with \(draft)",
            steps: [{ try $0.mkdir(draft, by: program) }]
                + writing(draft + "/x", content, O_WRONLY | O_CREAT | O_EXCL, program)
                + [
                    { try $0.exchange(draft, path, by: program) },
                    { try $0.removeTree(draft, by: program) },
                ]
        ) { _ in }
    }

    /// A file of the package becomes a document.
    static func takingOut(
        _ path: String, _ file: String, _ content: [UInt8], to other: String,
        _ program: Program
    ) -> Self {
        SimulatedSave(
            paths: [path + "/", other], label: "take \(file) out of \(path) to \(other)",
            steps: [{ try $0.rename(path + "/" + file, other, by: program) }]
        ) {
            $0.save(other, content)
        }
    }

    /// A document becomes a file of the package.
    static func puttingIn(
        _ other: String, _ path: String, _ file: String, _ program: Program
    ) -> Self {
        SimulatedSave(
            paths: [path + "/", other], label: "put \(other) into \(path) as \(file)",
            steps: [{ try $0.rename(other, path + "/" + file, by: program) }]
        ) { $0.remove(other) }
    }

    static func removingPackage(_ path: String, _ program: Program) -> Self {
        SimulatedSave(
            paths: [path + "/"], label: "remove \(path)",
            steps: [{ try $0.removeTree(path, by: program) }]
        ) { $0.removePackage(path) }
    }
}
