import FoundationEssentials
import Model

/// Encodes a value as JSON with sorted keys, in one line without a newline.
package func json(_ value: some Encodable) -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // Only a number that is not finite could fail to be encoded, and these types have none.
    return (try? encoder.encode(value)).map(Array.init) ?? Array("{}".utf8)
}

/// Decodes a line. The error says what is wrong with the line.
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
        throw VolumeError(.invalid, "\(subject) has a value of the wrong type")
    } catch {
        throw VolumeError(.invalid, "the line is not one JSON object")
    }
}

/// Encodes bytes in base64, for the answer to `extract`.
package func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

package func bytes(base64 text: String) -> [UInt8]? { Data(base64Encoded: text).map(Array.init) }
