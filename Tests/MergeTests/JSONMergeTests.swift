import Model
import Support
import Testing

@testable import Merge

@Suite("Merging by key") struct JSONMergeTests {
    private func merge(_ base: String, _ ours: String, _ theirs: String) throws -> String? {
        let merge = JSONMerge(
            base: try JSONText(Array(base.utf8)), ours: try JSONText(Array(ours.utf8)),
            theirs: try JSONText(Array(theirs.utf8)))
        return (try? merge.merged()).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test(
        "clean",
        arguments: [
            // Members on one line.
            (#"{"a":1,"b":2}"#, #"{"a":3,"b":2}"#, #"{"a":1,"b":4}"#, #"{"a":3,"b":4}"#),
            (
                #"{"a": 1}"#, #"{"a": 1, "b": 2}"#, #"{"a": 1, "c": 3}"#,
                #"{"a": 1, "b": 2, "c": 3}"#
            ),
            (#"{"a": 1, "b": 2}"#, #"{"b": 2}"#, #"{"a": 1, "b": 5}"#, #"{"b": 5}"#),
            (#"{"a": 1, "b": 2}"#, #"{"a": 1}"#, #"{"b": 2}"#, #"{}"#),
            (#"{}"#, #"{"a": 1}"#, #"{ "b": 2 }"#, #"{"a": 1, "b": 2}"#),
            (
                #"{"x": 0}"#, #"{"a": 1, "x": 0}"#, #"{"b": 2, "x": 0}"#,
                #"{"a": 1, "b": 2, "x": 0}"#
            ),
            // Numbers keep their spelling, and unchanged parts keep their white space.
            (
                "{ \"a\" :1.50 ,\n\"b\": 1e3}", "{ \"a\" :1.50 ,\n\"b\": 2}",
                "{ \"a\" :1.50 ,\n\"b\": 1e3, \"c\": -0.0}",
                "{ \"a\" :1.50 ,\n\"b\": 2, \"c\": -0.0}"
            ),
            // Indentation.
            (
                "{\n  \"a\": 1\n}\n", "{\n  \"a\": 1,\n  \"b\": [\n    2\n  ]\n}\n",
                "{\n  \"a\": 1,\n  \"c\": {\n    \"d\": 3\n  }\n}\n",
                "{\n  \"a\": 1,\n  \"b\": [\n    2\n  ],\n  \"c\": {\n    \"d\": 3\n  }\n}\n"
            ),
            (
                "{\n  \"a\": 1\n, \"b\": 2\n}", "{\n  \"a\": 1\n, \"b\": 3\n}",
                "{\n  \"a\": 4\n, \"b\": 2\n}", "{\n  \"a\": 4\n, \"b\": 3\n}"
            ),
            // Nested members, new ones on both sides, and equal ones on both sides.
            (
                #"{"o":{"a":1}}"#, #"{"o":{"a":1,"b":2}}"#, #"{"o":{"a":9}}"#,
                #"{"o":{"a":9,"b":2}}"#
            ),
            (#"{}"#, #"{"o":{"a":1}}"#, #"{"o":{"b":2}}"#, #"{"o":{"a":1, "b":2}}"#),
            (#"{"a":1}"#, #"{"a":2,"b":[1]}"#, #"{ "b": [ 1 ], "a": 2 }"#, #"{"a":2,"b":[1]}"#),
            // Arrays as lists of values.
            (
                #"["milk"]"#, #"["milk", "mustard"]"#, #"["milk", "ketchup"]"#,
                #"["milk", "mustard", "ketchup"]"#
            ),
            (#"[1]"#, #"[1, 2, 3]"#, #"[1, 3, 4]"#, #"[1, 2, 3, 4]"#),
            (#"[1,2,3]"#, #"[0,1,2,3]"#, #"[1,3]"#, #"[0,1,3]"#),
            (#"[1,2,3,4]"#, #"[1,9,3,4]"#, #"[1,2,3,8]"#, #"[1,9,3,8]"#),
            // Arrays whose elements have an identity.
            (
                #"[{"id":1,"a":1,"b":1}]"#, #"[{"id":1,"a":2,"b":1}]"#, #"[{"id":1,"a":1,"b":3}]"#,
                #"[{"id":1,"a":2,"b":3}]"#
            ),
            (
                #"[{"id":1,"v":1},{"id":2,"v":1}]"#, #"[{"id":2,"v":1},{"id":1,"v":1}]"#,
                #"[{"id":1,"v":1},{"id":2,"v":7}]"#, #"[{"id":2,"v":7},{"id":1,"v":1}]"#
            ),
            (
                #"[{"name":"x"}]"#, #"[{"name":"x"},{"name":"y"}]"#,
                #"[{"name":"z"},{"name":"x"}]"#,
                #"[{"name":"z"},{"name":"x"},{"name":"y"}]"#
            ),
            // A whole value of one side.
            (#"{"a":[1]}"#, #"{"a":[1]}"#, #"{"a":{"b":null}}"#, #"{"a":{"b":null}}"#),
            (#" 1 "#, #" 1 "#, #"2"#, #" 2 "#),
            // Different escapes of the same string are equal.
            (
                #"{"\u00e4":"\ud83d\ude00"}"#, #"{"ä":"😀","b":1}"#, #"{"\u00e4":"x"}"#,
                #"{"ä":"x","b":1}"#
            ),
        ])
    func clean(base: String, ours: String, theirs: String, result: String) throws {
        #expect(try merge(base, ours, theirs) == result)
    }

    @Test(
        "a conflict names the paths of the values",
        arguments: [
            (#"{"a":1}"#, #"{"a":2}"#, #"{"a":3}"#, "“a”"),
            (#"{"o":{"a":1}}"#, #"{"o":{}}"#, #"{"o":{"a":3}}"#, "“o.a”"),
            (#"{"o":{"a":1}}"#, #"{"o":{"a":3}}"#, #"{"o":{}}"#, "“o.a”"),
            (#"{}"#, #"{"a":1}"#, #"{"a":2}"#, "“a”"),
            (#"{"a":1}"#, #"{"a":1.0}"#, #"{"a":2}"#, "“a”"),
            (#"{"a":{}}"#, #"{"a":[]}"#, #"{"a":{"b":1}}"#, "“a”"),
            (#"[1,2]"#, #"[1,3]"#, #"[1,4]"#, "“.”"),
            (#"[1,2]"#, #"[1]"#, #"[1,4]"#, "“.”"),
            (#"[{"id":"x","v":1}]"#, #"[]"#, #"[{"id":"x","v":2}]"#, "x"),
            (#"[]"#, #"[{"id":1,"v":1}]"#, #"[{"id":1,"v":2}]"#, "“[1].v”"),
            (#"{"a":1,"b":1}"#, #"{"a":2,"b":2}"#, #"{"a":3,"b":3}"#, "“a”, “b” were"),
        ])
    func conflicts(base: String, ours: String, theirs: String, place: String) throws {
        let merge = JSONMerge(
            base: try JSONText(Array(base.utf8)), ours: try JSONText(Array(ours.utf8)),
            theirs: try JSONText(Array(theirs.utf8)))
        let error = #expect(throws: JSONConflict.self) { try merge.merged() }
        #expect(error?.what.contains(place) == true, "\(error?.what ?? "")")
        #expect(error?.what.contains("changed on both sides") == true)
    }

    @Test(
        "invalid JSON is refused",
        arguments: [
            "", "{", "[1,]", "{\"a\":1,}", "{a:1}", "01", "1.", "-", "+1", "1e", "nul", "tru",
            "'a'",
            "\"\t\"", "\"\\x\"", "\"\\u12g4\"", "\"a", "[1] 2", "// c\n1", "{\"a\":1,\"a\":2}",
            "{\"a\":1,\"\\u0061\":2}", "{\"a\" 1}", "[1 2]", "\u{0c}1", "NaN",
            String(repeating: "[", count: 129) + String(repeating: "]", count: 129),
        ])
    func flaws(text: String) {
        #expect(throws: JSONText.SyntaxError.self) { try JSONText(Array(text.utf8)) }
    }

    @Test(
        "valid JSON is accepted",
        arguments: [
            "0", "-0.5E+10", "\"\\\"\\u00e4\\ud800\"", " [ ] ", "\u{feff}{}", "null",
            "[true,false]",
            String(repeating: "[", count: 128) + String(repeating: "]", count: 128),
        ])
    func sound(text: String) throws { _ = try JSONText(Array(text.utf8)) }

    @Test("JSON is merged by lines if that is valid, else by key, else both give their reasons")
    func order() throws {
        let bench = try MergeBench()
        let lines = try bench.merge(
            "a.json", "{\n\"a\": 1,\n\"x\": 0,\n\"y\": 0,\n\"b\": 1\n}\n",
            "{\n\"a\": 2,\n\"x\": 0,\n\"y\": 0,\n\"b\": 1\n}\n",
            "{\n\"a\": 1,\n\"x\": 0,\n\"y\": 0,\n\"b\":   3\n}\n")
        #expect(lines.text == "{\n\"a\": 2,\n\"x\": 0,\n\"y\": 0,\n\"b\":   3\n}\n")
        #expect(
            try bench.merge("a.json", #"{"a":1,"b":1}"#, #"{"a":2,"b":1}"#, #"{"a":1,"b":2}"#).text
                == #"{"a":2,"b":2}"#)
        // Clean by lines, but with the key "k" twice; by key it is a conflict.
        let twice = try bench.merge(
            "a.json", "{\n\"a\": 1,\n\"x\": 0,\n\"y\": 0,\n\"b\": 1\n}\n",
            "{\n\"k\": 1,\n\"a\": 1,\n\"x\": 0,\n\"y\": 0,\n\"b\": 1\n}\n",
            "{\n\"a\": 1,\n\"x\": 0,\n\"y\": 0,\n\"k\": 2,\n\"b\": 1\n}\n")
        #expect(twice == .conflict("By json: “k” was changed on both sides."))
        // A file with comments is only merged by lines.
        let comments = try bench.merge(
            "a.json", "// 1\n{}\n\n// 2\n", "// 0\n{}\n\n// 2\n", "// 1\n{}\n\n// 3\n")
        #expect(comments.text == "// 0\n{}\n\n// 3\n")
        let neither = try bench.merge("a.json", "// 1\n{}", "// 2\n{}", "// 3\n{}")
        #expect(neither.isConflict && neither.reason?.contains("in the base, line 1") == true)
        #expect(
            try bench.merge("a.txt", #"{"a":1,"b":1}"#, #"{"a":2,"b":1}"#, #"{"a":1,"b":2}"#)
                .isConflict)
    }
}
