import Foundation

// cloud-notes DIRECTORY shows the notes of a directory.
let arguments = CommandLine.arguments.dropFirst()
var isDirectory: ObjCBool = false
guard let path = arguments.first, arguments.count == 1, !path.hasPrefix("-") else {
    print("usage: cloud-notes DIRECTORY\nShows the notes (.txt, .md, .notepkg) of a directory.")
    exit(arguments.first == "--help" ? 0 : 64)
}
guard FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory), isDirectory.boolValue
else {
    FileHandle.standardError.write(Data("\(path) is not a directory; give the path of one\n".utf8))
    exit(66)
}
do { try await Program(URL(filePath: path, directoryHint: .isDirectory)).run() } catch {
    FileHandle.standardError.write(Data("\(error.localizedDescription)\n".utf8))
    exit(1)
}
