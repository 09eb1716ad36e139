import Foundation
import FoundationNetworking
import Glibc
import Support
import Synchronization
import Testing

/// The page as a browser requests it, on the mounts of two devices.
@Suite("Shoebox", .serialized) struct ShoeboxTests {
    @Test("A23: a picture that one device adds is shown on the other, first as a placeholder")
    func adding() throws {
        try Fleet.with(2) { fleet in
            let boxes = try (0..<2).map { try Box(fleet.devices[$0].path) }
            defer { for box in boxes { box.close() } }
            for box in boxes { #expect(try box.pictures().isEmpty) }
            let heard = try boxes[1].listen()
            try wait(for: "the feed") { heard.count > 0 ? true : nil }
            let before = heard.count

            // This is more than is downloaded without a request.
            try fleet.shell(0, "mkdir new; head -c 3000000 /dev/urandom > new/1.png")
            try boxes[0].wait("its own") { $0.map(\.path) == ["new/1.png"] && $0[0].isHere }
            try boxes[1].wait("the placeholder") {
                $0.map(\.path) == ["new/1.png"] && !$0[0].isHere && $0[0].size == 3_000_000
            }
            try wait(for: "word of it") { heard.count > before ? true : nil }

            // The page requests the picture, which downloads it.
            let picture = try boxes[1].get("picture?path=new%2F1.png")
            let file = URL(filePath: "\(fleet.devices[0].path)/new/1.png")
            #expect(try picture.status == 200 && picture.data == Data(contentsOf: file))
            #expect(picture.type == "image/png")
            try boxes[1].wait("the picture") { $0.first?.isHere == true }

            try fleet.shell(0, "mv new/1.png 2.png; touch notes.txt")
            try boxes[1].wait("its new name") { $0.map(\.path) == ["2.png"] }
            try fleet.shell(1, "rm 2.png")
            try boxes[0].wait("its end") { $0.isEmpty }
        }
    }

    @Test("a conflict is shown with all versions, and settled on both devices") func conflict()
        throws
    {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.png", "old")
            try fleet.settle()
            for index in 0..<2 { try fleet.offline(index) }
            for index in 0..<2 {
                try fleet.put(index, "a.png", "by \(index)")
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<2 { try fleet.online(index) }
            let boxes = try (0..<2).map { try Box(fleet.devices[$0].path) }
            defer { for box in boxes { box.close() } }
            for box in boxes { try box.wait("the conflict") { $0.first?.isInConflict == true } }
            let rivals = try boxes[0].get("rivals?path=a.png").decoded([Rival].self)
            #expect(Set(rivals.map(\.device)) == ["dev0", "dev1"])
            #expect(rivals.map(\.isCurrent) == [true, false])
            let texts = try rivals.map { rival in
                let data = try boxes[0].get("version?path=a.png&id=\(rival.id)").data
                return String(decoding: data, as: UTF8.self)
            }
            #expect(Set(texts) == ["by 0", "by 1"])
            let kept = try boxes[0].get("keep?path=a.png&id=\(rivals[1].id)", method: "POST")
            #expect(kept.status == 200)
            for box in boxes { try box.wait("its end") { $0.first?.isInConflict == false } }
            try fleet.expectEqual()
            #expect(fleet.text(1, "a.png") == texts[1])
            #expect(try fleet.conflicts(1, "a.png") == [])
            // A browser that shows an older page gets an error.
            let late = try boxes[1].get("keep?path=a.png&id=\(rivals[0].id)", method: "POST")
            #expect(late.status == 409 && late.text.contains("settled elsewhere"))
        }
    }

    @Test("only this machine can ask, only with the token, and only for pictures")
    func secrecy() throws {
        let directory = try TemporaryDirectory("pictures")
        _ = try directory.write("x", to: "a.png")
        _ = try directory.write("secret", to: "b.txt")
        let box = try Box(directory.path)
        defer { box.close() }
        #expect(try box.pictures().map(\.path) == ["a.png"])
        #expect(try box.get("").text.contains("<title>Shoebox</title>"))
        #expect(try box.get("shoebox.js").type.contains("javascript"))
        #expect(try box.get("shoebox.css").status == 200)
        #expect(try box.get("picture?path=a.png").text == "x")
        for path in ["b.txt", "..%2Fa.png", "%2Fetc%2Fpasswd", ""] {
            #expect(try box.get("picture?path=\(path)").status == 404)
        }
        #expect(try box.get("picture").status == 400)
        for address in ["/", "/pictures", "/0000000000000000/pictures"] {
            #expect(try Box.ask("\(box.origin)\(address)").status == 404)
        }
        let elsewhere = box.origin.replacingOccurrences(of: "127.0.0.1", with: "127.0.0.2")
        #expect(throws: (any Error).self) { try Box.ask("\(elsewhere)/") }
    }

    @Test("it says that it needs a directory") func refusals() throws {
        let program = Programs.path("shoebox")
        #expect(try Command(program).run().status == 64)
        #expect(try Command(program, "/tmp", "port").run().status == 64)
        let missing = try Command(program, "/nowhere").run()
        #expect(missing.status == 66 && missing.errors.contains("/nowhere is not a directory"))
    }
}

struct Picture: Codable { var path: String, size: Int, isHere: Bool, isInConflict: Bool }
struct Rival: Codable { var id: String, device: String, isCurrent: Bool }

/// A running shoebox, and requests to it.
private final class Box {
    private let child: ChildProcess
    private let home: TemporaryDirectory
    private let address: String

    struct Answer: Sendable {
        var status: Int
        var type: String
        var data: Data
        var text: String { String(decoding: data, as: UTF8.self) }
        func decoded<Value: Decodable>(_ type: Value.Type) throws -> Value {
            try JSONDecoder().decode(type, from: data)
        }
    }

    init(_ directory: String) throws {
        home = try TemporaryDirectory("shoebox")
        let output = "\(home.path)/said"
        try Data().write(to: URL(filePath: output))
        let said = try FileHandle(forWritingTo: URL(filePath: output))
        let null = try FileHandle(forReadingFrom: URL(filePath: "/dev/null"))
        child = try ChildProcess(
            Programs.path("shoebox"), [directory], directory: "/",
            input: null.fileDescriptor, output: said.fileDescriptor, errors: said.fileDescriptor)
        address = try Support.wait(seconds: 20, for: "the address of the page") {
            let text = try String(contentsOfFile: output, encoding: .utf8)
            return text.hasSuffix("/\n") ? text.trimmingCharacters(in: .newlines) : nil
        }
    }

    func close() { child.killGroup() }
    deinit { child.killGroup() }

    /// A request without the token.
    var origin: String { String(address.split(separator: "/").prefix(2).joined(separator: "//")) }

    func get(_ path: String, method: String = "GET") throws -> Answer {
        try Box.ask(address + path, method)
    }

    func pictures() throws -> [Picture] { try get("pictures").decoded([Picture].self) }

    func wait(_ what: String, _ condition: ([Picture]) -> Bool) throws {
        var last: [Picture] = []
        try Support.wait(seconds: 40, for: "\(what); there is \(last)") {
            last = try pictures()
            return condition(last) ? true : nil
        }
    }

    static func ask(_ address: String, _ method: String = "GET") throws -> Answer {
        var request = URLRequest(url: URL(string: address)!)
        request.httpMethod = method
        let result = Mutex<Result<Answer, any Error>?>(nil)
        let done = DispatchSemaphore(value: 0)
        URLSession.shared.dataTask(with: request) { data, response, error in
            let response = response as? HTTPURLResponse
            result.withLock {
                $0 =
                    error.map { .failure($0) }
                    ?? .success(
                        Answer(
                            status: response?.statusCode ?? 0,
                            type: response?.value(forHTTPHeaderField: "Content-Type") ?? "",
                            data: data ?? Data()))
            }
            done.signal()
        }.resume()
        guard done.wait(timeout: .now() + 30) == .success else {
            throw SupportError("\(address) was not answered")
        }
        return try result.withLock { $0! }.get()
    }

    /// Counts the events that the page gets.
    func listen() throws -> Feed {
        let feed = Feed()
        feed.start(URL(string: address + "events")!)
        return feed
    }
}

private final class Feed: NSObject, URLSessionDataDelegate, Sendable {
    private let text = Mutex("")
    var count: Int { text.withLock { $0.components(separatedBy: "data: ").count - 1 } }

    func start(_ url: URL) {
        URLSession(configuration: .default, delegate: self, delegateQueue: nil)
            .dataTask(with: url).resume()
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        text.withLock { $0 += String(decoding: data, as: UTF8.self) }
    }
}
