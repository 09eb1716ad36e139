import FoundationEssentials
import Model

/// A value as JSON, keys sorted, in one line without its end.
package func json(_ value: some Encodable) -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // Only a number that is not finite can fail here, and our values have none.
    return (try? encoder.encode(value)).map(Array.init) ?? Array("{}".utf8)
}

/// Throws the sentence that tells the other end what was wrong with its line.
package func value<Value: Decodable>(_ type: Value.Type, from line: [UInt8]) throws(VolumeError)
    -> Value
{
    do {
        return try JSONDecoder().decode(type, from: Data(line))
    } catch DecodingError.keyNotFound(let key, _) {
        throw VolumeError(.invalid, "the line has no field \"\(key.stringValue)\"")
    } catch DecodingError.typeMismatch(_, let context), DecodingError.valueNotFound(_, let context)
    {
        let field = context.codingPath.map(\.stringValue).joined(separator: ".")
        let subject = field.isEmpty ? "the line" : "the field \"\(field)\""
        throw VolumeError(.invalid, "\(subject) has a value of another type than expected")
    } catch {
        throw VolumeError(.invalid, "the line is not one JSON object")
    }
}

/// Base64, as `extract` answers it.
package func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

package func bytes(base64 text: String) -> [UInt8]? { Data(base64Encoded: text).map(Array.init) }
