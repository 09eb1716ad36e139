import Foundation

// shoebox DIRECTORY [PORT] serves the pictures of a directory as a page for a browser on this
// machine.
let arguments = Array(CommandLine.arguments.dropFirst())
var isDirectory: ObjCBool = false
guard (1...2).contains(arguments.count), !arguments[0].hasPrefix("-"),
    let port = arguments.count == 2 ? UInt16(arguments[1]) : 0
else {
    print("usage: shoebox DIRECTORY [PORT]\nShows the pictures of a directory in the browser.")
    exit(arguments.first == "--help" ? 0 : 64)
}
let path = arguments[0]
guard FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory), isDirectory.boolValue
else {
    FileHandle.standardError.write(Data("\(path) is not a directory; give the path of one\n".utf8))
    exit(66)
}
let directory = URL(filePath: path, directoryHint: .isDirectory).resolvingSymlinksInPath()
do { try await Server(shoebox: Shoebox(directory), port: Int(port)).run() } catch {
    let sentence = "the page cannot be served on port \(port): \(error)\n"
    FileHandle.standardError.write(Data(sentence.utf8))
    exit(1)
}
