import AsyncHTTPClient
import ChunkStore
import Foundation
import Hub
import HubProtocol
import Model
import NIOCore
import Reconcile
import Support

@testable import HubWebDAV

/// A program that uses WebDAV.
struct DAVClient: Sendable {
    let url: String
    let user: String
    let password: String
    /// Headers of every request.
    var headers: [String: String] = [:]

    private static let client = HTTPClient(eventLoopGroupProvider: .singleton)

    struct Answer: Sendable {
        let status: Int
        let headers: [(name: String, value: String)]
        let bytes: [UInt8]

        subscript(header: String) -> String {
            headers.filter { $0.name.lowercased() == header.lowercased() }.map(\.value)
                .joined(separator: ", ")
        }

        var text: String { String(decoding: bytes, as: UTF8.self) }

        /// The decoded addresses of a multistatus.
        var addresses: [String] { values("href").map { $0.removingPercentEncoding ?? $0 } }

        /// The texts of these elements of `DAV:`.
        func values(_ name: String) -> [String] {
            text.components(separatedBy: "<D:\(name)>").dropFirst().map {
                $0.components(separatedBy: "</D:\(name)>")[0]
            }
        }
    }

    @discardableResult
    func send(
        _ method: String, _ path: String, _ body: [UInt8]? = nil, _ more: [String: String] = [:]
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: url + path)
        request.method = .init(rawValue: method)
        if !user.isEmpty {
            let pair = Data("\(user):\(password)".utf8).base64EncodedString()
            request.headers.add(name: "Authorization", value: "Basic \(pair)")
        }
        for (name, value) in headers.merging(more, uniquingKeysWith: { $1 }) {
            request.headers.replaceOrAdd(name: name, value: value)
        }
        if let body { request.body = .bytes(ByteBuffer(bytes: body)) }
        let response = try await DAVClient.client.execute(request, timeout: .seconds(120))
        let bytes = try await response.body.collect(upTo: 1 << 28)
        return Answer(
            status: Int(response.status.code), headers: response.headers.map { ($0, $1) },
            bytes: Array(bytes.readableBytesView))
    }

    func list(_ path: String, depth: String = "1", _ body: String? = nil) async throws -> Answer {
        try await send("PROPFIND", path, body.map { Array($0.utf8) }, ["Depth": depth])
    }

    /// The status of a request.
    func status(
        _ method: String, _ path: String, _ body: [UInt8]? = nil, _ more: [String: String] = [:]
    ) async throws -> Int {
        try await send(method, path, body, more).status
    }
}

extension RunningHub {
    /// A program with a new password of the user, who is created if necessary.
    func client(_ user: String = "anna", named name: String = "Phone") async throws -> DAVClient {
        let administration = try self.administration()
        if try await !administration.accounts().contains(where: { $0.name == user }) {
            try await administration.addAccount(user, quota: nil)
        }
        let password = try await administration.addPassword(for: user, named: name)
        try administration.close()
        return DAVClient(url: url, user: user, password: password)
    }

    /// The keys of names in the device's volume.
    func names(_ device: TestDevice) async throws -> VolumeNames {
        let id = device.volume.id
        guard let row = try await hub.ledger.read({ try $0.volume(id) }) else {
            throw SupportError("no volume")
        }
        return VolumeNames(volume: row)
    }
}

extension TestDevice {
    /// The items of the volume as devices receive them, by name.
    func aliveItems() async throws -> [String: ItemState] {
        var items: [String: ItemState] = [:]
        for case .item(let item) in try await changes().changes where item.life.isAlive {
            items[item.name] = item
        }
        return items
    }

    /// Creates an item under the same keys as real devices, with one chunk of contents.
    @discardableResult
    mutating func make(
        _ name: String, _ kind: ItemKind = .file, contents: [UInt8]? = nil,
        in parent: Identifier = .root, by names: VolumeNames, target: String? = nil
    ) async throws -> Identifier {
        let item = Identifier.random()
        var creation = Creation(
            kind: kind, placement: names.placement(name, in: parent, device: "device", at: 1),
            target: target)
        if let contents {
            try await upload([contents])
            creation.revision = revision(of: contents)
        }
        let result = try await commit([entry(item, .create(creation), bytes: contents)]).results[0]
        guard result.verdict == .applied else { throw SupportError("not created: \(result)") }
        return item
    }

    /// Creates a package of these files, each of one chunk.
    mutating func makePackage(
        _ name: String, _ files: [(path: String, contents: [UInt8])], _ names: VolumeNames,
        repeats: Int = 1
    ) async throws -> Identifier {
        try await upload(files.map(\.contents))
        var entries = files.map { file in
            Manifest.Entry(
                path: Array(file.path.utf8), size: UInt64(file.contents.count * repeats),
                chunks: [ChunkReference](
                    repeating: ChunkReference(
                        id: .sha256(file.contents), length: UInt32(file.contents.count)),
                    count: repeats))
        }
        let folders = Set(files.compactMap { $0.path.split(separator: "/").dropLast().last })
        entries += folders.map { Manifest.Entry(path: Array($0.utf8), kind: .directory) }
        entries.append(
            Manifest.Entry(path: Array("link".utf8), kind: .symlink, size: 1, target: [0x61]))
        let manifest = Manifest(
            entries: entries.sorted { $0.path.lexicographicallyPrecedes($1.path) })
        let item = Identifier.random()
        let revision = Revision(
            id: .random(), parents: [], content: names.content(manifest), size: manifest.size,
            moment: Moment(time: 1, device: id))
        var entry = entry(
            item,
            .create(
                Creation(
                    kind: .package,
                    placement: names.placement(name, in: .root, device: "device", at: 1),
                    revision: revision)))
        entry.content = RevisionContent(
            manifest: manifest.encoded, chunks: files.map { id(of: $0.contents) })
        let result = try await commit([entry]).results[0]
        guard result.verdict == .applied else { throw SupportError("not created: \(result)") }
        return item
    }
}
