import ChunkStore
import HubProtocol
import Model

extension S3Client {
    enum Outcome: Hashable {
        case stored
        /// There was an object with this name, which is unchanged.
        case exists
    }

    /// Returns nil if there is no such object, or none of these bytes.
    func get(_ key: String, _ range: Range<UInt64>) async throws(VolumeError) -> [UInt8]? {
        let last = range.upperBound - 1
        let answer = try await send(
            Request(
                method: .GET, key: key, headers: [("range", "bytes=\(range.lowerBound)-\(last)")],
                // A server that ignores the range sends the whole object.
                limit: max(range.count, 64 << 10)))
        return answer.status == 206 ? answer.body : nil
    }

    /// Returns nil if there is no such object.
    func get(_ key: String, limit: Int) async throws(VolumeError) -> [UInt8]? {
        let answer = try await send(Request(method: .GET, key: key, limit: limit))
        return answer.status == 200 ? answer.body : nil
    }

    /// Replaces an object.
    func replace(_ key: String, _ bytes: [UInt8]) async throws(VolumeError) {
        _ = try await send(
            Request(method: .PUT, key: key, headers: [checksum(of: bytes)], body: bytes))
    }

    /// Stores a new object, in parts if it is large. After a failure it may exist or not.
    func put(_ key: String, _ bytes: [UInt8]) async throws(VolumeError) -> Outcome {
        if bytes.count > Self.singleBytes { return try await putParts(key, bytes) }
        let answer = try await send(
            Request(
                method: .PUT, key: key, headers: [checksum(of: bytes), ("if-none-match", "*")],
                body: bytes))
        return answer.status == 412 ? .exists : .stored
    }

    /// A longer object is put in parts.
    static let singleBytes = 16 << 20
    static let partBytes = 8 << 20

    func delete(_ key: String) async throws(VolumeError) {
        _ = try await send(Request(method: .DELETE, key: key))
    }

    private func checksum(of bytes: [UInt8]) -> (String, String) {
        let digest = Base64(Array(Digest.sha256(bytes).bytes.dropFirst()))
        return ("x-amz-checksum-sha256", digest.text)
    }

    // MARK: Parts

    private func putParts(_ key: String, _ bytes: [UInt8]) async throws(VolumeError) -> Outcome {
        let upload = try await begin(key)
        do throws(VolumeError) {
            let outcome = try await put(bytes, in: upload)
            if outcome == .exists { try await abort(upload) }
            return outcome
        } catch {
            // A collection aborts it if this fails.
            try? await abort(upload)
            throw error
        }
    }

    /// Begins an upload in parts.
    func begin(_ key: String) async throws(VolumeError) -> Upload {
        let answer = try await send(
            Request(
                method: .POST, key: key, query: [("uploads", "")],
                headers: [("x-amz-checksum-algorithm", "SHA256")]))
        guard let id = S3Element(answer.body)?["UploadId"] else {
            throw S3Fault(status: answer.status, date: "", answer.body).error(of: address)
        }
        return Upload(key: key, id: id)
    }

    private func put(_ bytes: [UInt8], in upload: Upload) async throws(VolumeError) -> Outcome {
        var list = ""
        for (index, start) in stride(from: 0, to: bytes.count, by: Self.partBytes).enumerated() {
            let part = Array(bytes[start..<min(start + Self.partBytes, bytes.count)])
            let sum = checksum(of: part)
            let answer = try await send(
                Request(
                    method: .PUT, key: upload.key,
                    query: [("partNumber", "\(index + 1)"), ("uploadId", upload.id)],
                    headers: [sum], body: part))
            guard let tag = answer.headers.first(name: "etag") else {
                throw S3Fault(status: answer.status, date: "", answer.body).error(of: address)
            }
            list +=
                "<Part><PartNumber>\(index + 1)</PartNumber><ETag>\(tag)</ETag>"
                + "<ChecksumSHA256>\(sum.1)</ChecksumSHA256></Part>"
        }
        let text = "<CompleteMultipartUpload>\(list)</CompleteMultipartUpload>"
        let answer = try await send(
            Request(
                method: .POST, key: upload.key, query: [("uploadId", upload.id)],
                headers: [("if-none-match", "*")], body: Array(text.utf8)))
        // The answer to a first attempt may have been lost: then the upload does not exist any
        // more, and the object may.
        return answer.status == 200 ? .stored : .exists
    }

    func abort(_ upload: Upload) async throws(VolumeError) {
        _ = try await send(
            Request(method: .DELETE, key: upload.key, query: [("uploadId", upload.id)]))
    }

    struct Upload: Hashable {
        let key: String
        let id: String
    }

    // MARK: Lists

    /// Returns the uploads in parts that were not completed, at most 1,000.
    func uploads() async throws(VolumeError) -> [Upload] {
        let answer = try await send(
            Request(
                method: .GET, key: "",
                query: [("uploads", ""), ("prefix", address.prefix + Self.packs)]))
        return (S3Element(answer.body)?.all("Upload") ?? []).compactMap { upload in
            guard let key = upload["Key"], let id = upload["UploadId"],
                key.hasPrefix(address.prefix)
            else { return nil }
            return Upload(key: String(key.dropFirst(address.prefix.count)), id: id)
        }
    }

    /// The beginning of the names of packs.
    static let packs = "packs/"

    /// Lists the objects whose names begin with `start`, with their sizes.
    func list(_ start: String) async throws(VolumeError) -> [String: UInt64] {
        var (found, token) = ([String: UInt64](), String?.none)
        repeat {
            var query = [("list-type", "2"), ("prefix", address.prefix + start)]
            if let token { query.append(("continuation-token", token)) }
            let answer = try await send(Request(method: .GET, key: "", query: query))
            guard answer.status == 200, let list = S3Element(answer.body),
                list.name == "ListBucketResult"
            else {
                throw S3Fault(status: answer.status, date: "", answer.body).error(of: address)
            }
            for object in list.all("Contents") {
                guard let key = object["Key"], key.hasPrefix(address.prefix),
                    let size = object["Size"].flatMap({ UInt64($0) })
                else { continue }
                found[String(key.dropFirst(address.prefix.count))] = size
            }
            token = list["IsTruncated"] == "true" ? list["NextContinuationToken"] : nil
        } while token != nil
        return found
    }
}
