import Control
import Model
import Testing

/// Encoded lines look as Protocol.md promises.
@Suite struct ProtocolTests {
    private func text(_ value: some Encodable) -> String {
        String(decoding: json(value), as: UTF8.self)
    }

    @Test func requestsAreFlatObjects() {
        #expect(text(Request(.status, id: 7)) == #"{"id":7,"verb":"status"}"#)
        var wait = Request(.wait, id: 1, path: [Name("a b"), Name("ü.txt")])
        wait.durability = "disk"
        wait.timeoutSeconds = 2.5
        #expect(
            text(wait)
                == #"{"durability":"disk","id":1,"path":"a b/ü.txt","#
                + #""timeoutSeconds":2.5,"verb":"wait"}"#
        )
    }

    @Test func repliesAreResultErrorOrProgress() {
        #expect(text(Reply(id: 3, result: Nothing())) == #"{"id":3,"ok":true,"result":{}}"#)
        #expect(
            text(Reply<Nothing>(id: nil, error: VolumeError(.busy, "no")))
                == #"{"error":{"code":"busy","message":"no"},"ok":false}"#)
        #expect(
            text(Reply<Nothing>(id: 1, progress: Progress("checking", fraction: 0.5)))
                == #"{"id":1,"progress":{"fraction":0.5,"text":"checking"}}"#)
    }

    @Test func aVersionHasTheseKeys() {
        let version = Version(
            id: Identifier(high: 1, low: 2), number: 3, parents: [Identifier(high: 0, low: 1)],
            device: Identifier(high: 0, low: 9), deviceName: "desk", person: "ann", program: "vim",
            name: Name("a.txt"), size: 5, modified: 10, saved: 20,
            content: Digest(.sha256, words: (0, 0, 0, 1)))
        let zeros = String(repeating: "0", count: 63)
        #expect(
            text(VersionReport(version, fileName: Name("a 3.txt"))) == """
                {"content":"sha256:\(zeros)1","device":"00000000000000000000000000000009",\
                "deviceName":"desk","durability":"disk","fileName":"a 3.txt",\
                "id":"00000000000000010000000000000002","kind":"current","modified":10,\
                "name":"a.txt",\
                "number":3,"parents":["00000000000000000000000000000001"],"person":"ann",\
                "program":"vim","saved":20,"size":5}
                """)
    }

    @Test func volumeReportHasTheDocumentedKeys() throws {
        let report = VolumeReport(
            volume: "v", device: "d", name: "n", store: RawText("/s"), tree: RawText("/s/tree"))
        let keys = text(report).matches(of: /"([A-Za-z]+)":/).map { String($0.1) }
        #expect(
            keys == [
                "device", "documents", "items", "mountPoint", "name", "passthrough",
                "passthroughReason", "pendingEvents", "problems", "process", "scanned",
                "scanning", "store", "storeBytes", "tree", "versions", "volume",
                "waitingToBeCut",
            ])
    }

    @Test(arguments: [[UInt8]("plain".utf8), [0x66, 0xFF, 0x2F, 0xC3], [], Array("ä/ö".utf8)])
    func everyNameSurvives(bytes: [UInt8]) throws {
        let line = json(["path": RawText(bytes: bytes)])
        #expect(try value([String: RawText].self, from: line)["path"]?.bytes == bytes)
    }

    @Test func namesThatAreNotTextTravelAsHexadecimal() {
        #expect(text([RawText(bytes: [0xFF, 0x61])]) == #"[{"hex":"ff61"}]"#)
    }

    @Test(arguments: ["/a", "a/", "a//b", "..", "a/../b", ".", "a/\0"])
    func pathsThatLeaveTheVolumeAreRefused(path: String) throws {
        var request = Request(.status)
        request.path = RawText(path)
        #expect(throws: VolumeError.self) { try request.components() }
    }

    @Test func theRootIsTheEmptyPath() throws {
        #expect(try Request(.status, path: []).components() == [])
        #expect(RawText(path: [Name("a"), Name("b")]).path == [Name("a"), Name("b")])
    }

    @Test(arguments: [
        ("nonsense", "the line is not one JSON object"),
        ("{", "the line is not one JSON object"),
        (#"{"id":1}"#, "the line has no field \"verb\""),
        (
            #"{"id":"x","verb":"status"}"#,
            "the field \"id\" has a value of the wrong type"
        ),
        ("[1]", "the line has a value of the wrong type"),
    ])
    func aBadLineIsExplained(line: String, sentence: String) {
        #expect(throws: VolumeError(.invalid, sentence)) {
            try value(Request.self, from: Array(line.utf8))
        }
    }

    @Test func deepNestingIsRefusedNotFollowed() {
        let bomb = [UInt8](repeating: UInt8(ascii: "["), count: 1 << 20)
        #expect(throws: VolumeError.self) { try value(Request.self, from: bomb) }
    }

    @Test func exitCodesAreWhatScriptsRelyOn() {
        #expect(ExitCode.allCases.map(\.rawValue) == Array(0...14))
        #expect(ExitCode(.notFound).rawValue == 3 && ExitCode(.system).rawValue == 11)
    }
}
