import Foundation
import Glibc
import Model
import Testing

@testable import Mount

@Suite("Processes and their sessions") struct ProcessSessionTests {
    @Test("a process's name may hold anything") func statusLines() throws {
        let line = "42 (a) b (c) S 7 42 41 34818 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 99"
        let facts = try #require(ProcessFacts(line: line))
        #expect(facts.program == "a) b (c" && facts.parent == 7 && facts.session == 41)
        #expect(facts.start == 123_456 && facts.terminalName == "pts/2")
        for line in ["", "42 (a S 7", "42 (a) S 7 42 41", "42 )a( S 7"] {
            #expect(ProcessFacts(line: line) == nil, "\(line)")
        }
    }

    @Test("the innermost unit of a control group") func units() {
        let groups = "1:name=x:/\n0::/user.slice/user@0.service/app.slice/app-x.scope/inner\n"
        #expect(ProcessFacts.unit(groups: groups) == "app-x.scope")
        #expect(ProcessFacts.unit(groups: "0::/\n") == nil)
        #expect(ProcessFacts.unit(groups: "2:cpu:/x.service\n") == nil)
    }

    @Test("a variable is found in an environment") func variables() {
        let environment = Array("A=1\0CONCORD_SESSIONS=x\0CONCORD_SESSION=a=b\0".utf8)
        #expect(EnvironmentReader.find("CONCORD_SESSION", in: environment) == "a=b")
        #expect(EnvironmentReader.find("B", in: environment) == nil)
    }

    @Test("an environment is read for its own user only") func users() {
        let reader = EnvironmentReader()
        #expect(reader.value(of: "PATH", in: getpid(), uid: geteuid()) != nil)
        #expect(reader.value(of: "PATH", in: getpid(), uid: geteuid() + 1) == nil)
        #expect(reader.value(of: "NO_SUCH_VARIABLE", in: getpid(), uid: geteuid()) == nil)
    }

    @Test("threads that ask at once are all answered") func many() async {
        let reader = EnvironmentReader()
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<200 {
                group.addTask { reader.value(of: "PATH", in: getpid(), uid: geteuid()) != nil }
            }
            for await isKnown in group { #expect(isKnown) }
        }
    }
}
