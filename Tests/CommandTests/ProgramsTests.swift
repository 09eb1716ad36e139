import Foundation
import Glibc
import Support
import Testing

/// A test starts a debug program only if that was asked for.
@Suite struct ProgramsTests {
    private let scratch: Scratch

    init() throws { scratch = try Scratch() }

    /// Makes a directory with a program that loads these libraries and was built at this time.
    private func programs(_ name: String, loading library: String, at time: Double) throws
        -> String
    {
        let directory = try scratch.directory(name)
        try scratch.file("\(name)/concord", "ELF \(library) \0")
        try date("\(name)/concord", time)
        return directory
    }

    private func date(_ name: String, _ time: Double) throws {
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSince1970: time)], ofItemAtPath: scratch(name))
    }

    @Test func whatTheTestsStartIsWhatPeopleGet() throws {
        guard ProcessInfo.processInfo.environment["CONCORD_BIN_DIR"] == nil else { return }
        let directory = Programs.directory
        #expect(Programs.objection(to: directory, besides: Programs.tests) == nil)
        let debug = try #require(Programs.objection(to: Programs.tests, besides: directory))
        #expect(debug.contains("no release build"))
    }

    @Test("a signal ends a program that a test starts, also where the tests ignore the signal")
    func signals() throws {
        let before = signal(SIGINT, SIG_IGN)
        defer { _ = signal(SIGINT, before) }
        let null = FileHandle.nullDevice.fileDescriptor
        let program = try ChildProcess("sleep", ["60"], input: null, output: null, errors: null)
        defer { program.killGroup() }
        program.send(SIGINT)
        #expect(try program.waitForEnd(seconds: 20) == 130)
    }

    @Test func othersAreRefused() throws {
        let tests = try programs("debug", loading: "libswiftCore.so", at: 1000)
        let release = try programs("release", loading: "libsqlite3.so.0", at: 2000)
        func objection(_ directory: String) -> String? {
            Programs.objection(to: directory, besides: tests)
        }
        #expect(objection(release) == nil)
        #expect(objection(tests)?.contains("no release build") == true)
        #expect(objection(scratch("nowhere"))?.contains("not there") == true)
        // The debug program has a function that the release program lacks.
        try date("debug/concord", 3000)
        #expect(objection(release)?.contains("is older than") == true)
        try scratch.file("release/\(Programs.note)")
        #expect(objection(release) == nil)
    }
}
