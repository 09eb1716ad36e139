import Glibc
import Model

/// A merge by a program of this machine, which is called like a merge driver of git.
struct ProgramMerge {
    let name: String
    let program: MergeTools.Program
    let directory: Scratch
    let mayGoOn: @Sendable () -> Bool

    func merge(_ three: MergeTriple, path: [Name]) throws(VolumeError) -> DriverResult {
        guard let place = LimitedProgram.path(of: program.words[0]) else {
            return .failed("\(program.words[0]), which [\(name)] names, is not on this machine")
        }
        let ending = ending(of: path)
        let files = ["base\(ending)", "ours\(ending)", "theirs\(ending)"]
        for (file, content) in zip(files, [three.base, three.ours, three.theirs]) {
            try directory.write(content, to: file)
        }
        let run = LimitedProgram(
            path: place, directory: directory, limits: program.limits,
            environment: ["HOME=\(getenv("HOME").map { String(cString: $0) } ?? directory.path)"],
            mayGoOn: mayGoOn)
        let words = program.words.dropFirst().map { filled($0, files: files, path: path) }
        switch try run.run(words) {
        case .exit(0):
            guard let result = try? directory.read(files[1], sizeMax: Merger.sizeMax) else {
                return .failed("it left no file, or one of more than \(Merger.sizeMax >> 20) MiB")
            }
            return .clean(result)
        case .exit(let code) where code < 128:
            return .conflict("it ended with \(code) \(run.firstErrorLine())")
        case .exit(let code): return .failed("it ended with \(code) \(run.firstErrorLine())")
        case .failed(let why): return .failed("it \(why)")
        }
    }

    /// The document's extension, if it is a plain one, so that programs recognize the type of the
    /// file.
    private func ending(of path: [Name]) -> String {
        let bytes = path.last?.fileExtension ?? []
        guard !bytes.isEmpty, bytes.count <= 16, bytes.allSatisfy(isAlphanumeric) else { return "" }
        return "." + String(decoding: bytes, as: UTF8.self)
    }

    private func filled(_ word: String, files: [String], path: [Name]) -> [UInt8] {
        if word == "%P" {
            let joined = Array(path.map(\.bytes).joined(separator: [UInt8(ascii: "/")]))
            return joined.first == UInt8(ascii: "-") ? Array("./".utf8) + joined : joined
        }
        var result: [UInt8] = []
        var rest = word.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%"), let letter = rest.popFirst() else {
                result.append(byte)
                continue
            }
            switch letter {
            case UInt8(ascii: "O"): result += files[0].utf8
            case UInt8(ascii: "A"): result += files[1].utf8
            case UInt8(ascii: "B"): result += files[2].utf8
            case UInt8(ascii: "L"): result += "7".utf8
            default: result.append(letter)
            }
        }
        return result
    }
}
