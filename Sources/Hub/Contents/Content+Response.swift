import HTTPTypes
import Hummingbird
import NIOCore

extension Content {
    /// Sends the contents, or the part that a request asks for, piece by piece.
    ///
    /// - Parameters:
    ///   - range: The request's header `Range`.
    ///   - headers: Those of the answer, without the length and the range.
    package func response(range: String?, _ headers: HTTPFields) -> Response {
        var headers = headers
        switch ByteRange(range, size: size) {
        case .all: return response(0..<size, .ok, headers)
        case .part(let part):
            headers[.contentRange] = "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(size)"
            return response(part, .partialContent, headers)
        case .none:
            headers[.contentRange] = "bytes */\(size)"
            headers[.contentLength] = "0"
            return Response(status: .rangeNotSatisfiable, headers: headers)
        }
    }

    private func response(
        _ range: Range<UInt64>, _ status: HTTPResponse.Status, _ headers: HTTPFields
    ) -> Response {
        var headers = headers
        headers[.contentLength] = String(range.upperBound - range.lowerBound)
        return Response(
            status: status, headers: headers,
            body: ResponseBody { writer in
                var reader = reader(of: range)
                while let bytes = try await reader.next() {
                    hub.metrics.bytesOut.add(bytes.count)
                    try await writer.write(ByteBuffer(bytes: bytes))
                }
                try await writer.finish(nil)
            })
    }
}
