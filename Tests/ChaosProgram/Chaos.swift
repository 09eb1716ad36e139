import Foundation
import Glibc
import Support

/// Causes faults around real devices and a real hub, and checks whether a promise is broken.
///
///     chaos run [--seed N] [--minutes M] [--rounds N] [--skip ROUNDS] [--devices N]
///               [--actions N] [--pause MS]
///               [--out DIR] [--shrink MINUTES] [--only FAULT,…] [--without FAULT,…]
///               [--odds N: each fault in one of N rounds] [--often N: at most in such a round]
///               [--focus WORK,…] [--breaks KIND,…: only such violations end the run]
///               [--settle SECONDS] [--still SECONDS: gives up when nothing changes for so long]
///     chaos planted [NAME…] [--minutes M] [--shrink MINUTES] [--seed N] [--out DIR]
///         plants faults that the product once had, one after another, and must find them
///     chaos replay FILE [--times N] [--shrink MINUTES]     repeats the actions of a failed run
///     chaos check HISTORY                                 judges any history
///     chaos picture HISTORY DOCUMENT [--round N] > life.svg    draws a document's history
@main struct Chaos {
    static func main() {
        signal(SIGPIPE, SIG_IGN)
        let interruptions = [SIGINT, SIGTERM].map(endingEverything)
        defer { for interruption in interruptions { interruption.cancel() } }
        do {
            let options = try Options(Array(CommandLine.arguments.dropFirst()))
            let isWell: Bool
            switch options.words.first {
            case "run": isWell = try Campaign(options).run()
            case "planted": isWell = try Planted(options: options).run()
            case "probe": isWell = Probe(options.words).run()
            case "replay": isWell = try Campaign(options).replay()
            case "check": isWell = try check(options)
            case "picture": isWell = try picture(options)
            default:
                throw SupportError(
                    "chaos run | planted | replay FILE | check HISTORY | picture HISTORY DOCUMENT")
            }
            exit(isWell ? 0 : 1)
        } catch {
            say("chaos: \(error)")
            exit(2)
        }
    }

    /// An interrupted run leaves no mount and no process behind.
    private static func endingEverything(on number: Int32) -> any DispatchSourceSignal {
        signal(number, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
        source.setEventHandler {
            World.present.withLock { $0?.end() }
            exit(130)
        }
        source.resume()
        return source
    }

    private static func check(_ options: Options) throws -> Bool {
        guard options.words.count == 2 else { throw SupportError("chaos check HISTORY") }
        let history = try Data(contentsOf: URL(filePath: options.words[1]))
        let violations = Checker.violations(of: try Event.all(in: history))
        for violation in violations { say(violation) }
        say(violations.isEmpty ? "nothing is wrong" : "\(violations.count) violations")
        return violations.isEmpty
    }

    private static func picture(_ options: Options) throws -> Bool {
        guard options.words.count == 3 else { throw SupportError("chaos picture HISTORY DOCUMENT") }
        let history = try Data(contentsOf: URL(filePath: options.words[1]))
        let round = options["round"].flatMap { Int($0) }
        let events = try Event.all(in: history).filter { round == nil || $0.round == round }
        say(Picture(of: options.words[2], events: events).svg)
        return true
    }
}

/// The arguments: words, and options `--name number`.
struct Options {
    private(set) var words: [String] = []
    private var values: [String: String] = [:]

    init(_ arguments: [String]) throws {
        var rest = arguments[...]
        while let word = rest.popFirst() {
            if word.hasPrefix("--") {
                guard let value = rest.popFirst() else { throw SupportError("\(word) what?") }
                values[String(word.dropFirst(2))] = value
            } else {
                words.append(word)
            }
        }
    }

    subscript(_ name: String) -> String? { values[name] }

    /// The kinds of faults that may occur.
    var faults: [Plan.Fault] {
        get throws {
            func named(_ option: String) throws -> [Plan.Fault]? {
                try values[option].map { text in
                    try text.split(separator: ",").map { word in
                        guard let fault = Plan.Fault(rawValue: String(word)) else {
                            let all = Plan.Fault.allCases.map(\.rawValue).joined(separator: ", ")
                            throw SupportError("\(word) is none of \(all)")
                        }
                        return fault
                    }
                }
            }
            let without = try named("without") ?? []
            return try (named("only") ?? Plan.Fault.allCases).filter { !without.contains($0) }
        }
    }

    /// The kinds of work of which there is more than usual.
    var focus: [Plan.Focus] {
        get throws {
            try (values["focus"] ?? "").split(separator: ",").map { word in
                guard let focus = Plan.Focus(rawValue: String(word)) else {
                    let all = Plan.Focus.allCases.map(\.rawValue).joined(separator: ", ")
                    throw SupportError("\(word) is none of \(all)")
                }
                return focus
            }
        }
    }

    /// The kinds of violations that are looked for.
    var breaks: Set<Violation.Kind> {
        get throws {
            guard let text = values["breaks"] else { return Set(Violation.Kind.allCases) }
            return try Set(
                text.split(separator: ",").map { word in
                    guard let kind = Violation.Kind(rawValue: String(word)) else {
                        let all = Violation.Kind.allCases.map(\.rawValue).joined(separator: ", ")
                        throw SupportError("\(word) is none of \(all)")
                    }
                    return kind
                })
        }
    }

    func number(_ name: String, _ usual: Int) -> Int { values[name].flatMap { Int($0) } ?? usual }
}

/// Writes a line to standard output without buffering, because a long run is watched through a
/// file.
func say(_ line: some CustomStringConvertible) {
    try? FileHandle.standardOutput.write(contentsOf: Data("\(line)\n".utf8))
}
