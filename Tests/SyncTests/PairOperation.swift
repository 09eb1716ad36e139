/// One action of a person or a program on the contents that each pair's directory starts with: the
/// documents `d/f.txt` and `d/g.txt`, the package `d/p.rtfd`, the link `d/l` and the empty folder
/// `e`.
struct PairOperation: Sendable {
    var name: String
    /// The effects on the volume, register by register.
    var effects: @Sendable (PairSide) -> [PairEffect]
    var perform: @Sendable (PairDesk, PairSide) throws -> Void

    init(
        _ name: String, _ effects: @escaping @Sendable (PairSide) -> [PairEffect],
        _ perform: @escaping @Sendable (PairDesk, PairSide) throws -> Void
    ) {
        (self.name, self.effects, self.perform) = (name, effects, perform)
    }
}

/// The device that acts: device 0 is A, device 1 is B. Texts differ between pairs and sides, except
/// where equal texts are the point.
struct PairSide: Sendable {
    var letter: String
    var pair: String

    var text: String { "\(letter), \(pair)" }
    var draft: String { "draft of \(text)" }
    var common: String { "both, \(pair)" }

    func file(_ name: String, in parent: String = "d", _ text: String? = nil) -> PairItem {
        PairItem(kind: .file, parent: parent, name: name, text: text ?? self.text)
    }

    func folder(_ name: String, in parent: String = "d") -> PairItem {
        PairItem(kind: .directory, parent: parent, name: name)
    }

    func link(_ name: String, _ target: String) -> PairItem {
        PairItem(kind: .symlink, parent: "d", name: name, text: target)
    }

    /// The id of a new item.
    func new(_ name: String) -> String { "\(letter).\(name)" }

    static func base(_ pair: String) -> [String: PairItem] {
        let before = PairSide(letter: "before", pair: pair)
        var items = [
            "d": before.folder("d", in: ""), "e": before.folder("e", in: ""),
            "f": before.file("f.txt", "\(before.text) f"),
            "g": before.file("g.txt", "\(before.text) g"), "l": before.link("l", "before"),
            "p": PairItem(
                kind: .package, parent: "d", name: "p.rtfd",
                text: "TXT=\(before.text);pic=before"),
        ]
        items["f"]?.note = "before"
        return items
    }

    /// The contents before the action.
    func before(_ id: String) -> String { PairSide.base(pair)[id]!.text }
}

extension PairOperation {
    static let all = contents + attributes + names + creations + removals + folders + packages

    private static let contents = [
        PairOperation("nothing", { _ in [] }, { _, _ in }),
        PairOperation("edit", { [.save("f", $0.text)] }, { try $0.write("d/f.txt", $1.text) }),
        PairOperation(
            "save over", { [.save("f", $0.text), .note("f", nil)] },
            {
                try $0.write("d/.goutputstream-1", $1.text)
                try $0.rename("d/.goutputstream-1", "d/f.txt")
            }),
        PairOperation(
            "edit alike", { [.save("f", $0.common)] },
            {
                try $0.write("d/f.txt", $1.common)
            }),
        PairOperation(
            "append", { [.save("f", $0.before("f") + $0.text)] },
            {
                try $0.append("d/f.txt", $1.text)
            }),
        PairOperation(
            "empty", { _ in [.save("f", "")] },
            { desk, _ in
                try desk.write("d/f.txt", "")
            }),
        PairOperation("edit g", { [.save("g", $0.text)] }, { try $0.write("d/g.txt", $1.text) }),
        PairOperation(
            "edit twice, rename",
            {
                [
                    .save("f", $0.draft), .save("f", $0.text),
                    .place("f", in: "d", as: "\($0.letter).txt"),
                ]
            },
            {
                try $0.write("d/f.txt", $1.draft)
                try $0.write("d/f.txt", $1.text)
                try $0.rename("d/f.txt", "d/\($1.letter).txt")
            }),
        PairOperation(
            "exchange",
            {
                [
                    .save("f", $0.before("g")), .save("g", $0.before("f")), .note("f", nil),
                    .note("g", "before"),
                ]
            }, { desk, _ in try desk.exchange("d/f.txt", "d/g.txt") }),
        PairOperation(
            "g over f",
            {
                [.save("f", $0.before("g")), .note("f", nil), .delete("g")]
            }, { desk, _ in try desk.rename("d/g.txt", "d/f.txt") }),
    ]

    private static let attributes = [
        PairOperation(
            "touch", { _ in [] },
            { desk, side in
                try desk.touch("d/f.txt", side.letter == "A" ? 1_000_000_000 : 1_100_000_000)
            }),
        PairOperation(
            "chmod", { [.mode("f", $0.letter == "A" ? 0o700 : 0o500)] },
            { desk, side in
                try desk.chmod("d/f.txt", side.letter == "A" ? 0o700 : 0o500)
            }),
        PairOperation("set note", { [.note("f", $0.text)] }, { try $0.note("d/f.txt", $1.text) }),
        PairOperation(
            "remove note", { _ in [.note("f", nil)] },
            { desk, _ in
                try desk.note("d/f.txt", nil)
            }),
    ]

    private static let names = [
        PairOperation(
            "rename", { [.place("f", in: "d", as: "\($0.letter).txt")] },
            {
                try $0.rename("d/f.txt", "d/\($1.letter).txt")
            }),
        PairOperation(
            "rename to h", { _ in [.place("f", in: "d", as: "h.txt")] },
            { desk, _ in
                try desk.rename("d/f.txt", "d/h.txt")
            }),
        PairOperation(
            "rename g to h", { _ in [.place("g", in: "d", as: "h.txt")] },
            { desk, _ in
                try desk.rename("d/g.txt", "d/h.txt")
            }),
        PairOperation(
            "move to e", { _ in [.place("f", in: "e", as: "f.txt")] },
            { desk, _ in
                try desk.rename("d/f.txt", "e/f.txt")
            }),
        PairOperation(
            "move to a new folder",
            {
                [
                    .create($0.new("n"), $0.folder("n", in: "")),
                    .place("f", in: $0.new("n"), as: "f.txt"),
                ]
            },
            { desk, _ in
                try desk.makeDirectory("n")
                try desk.rename("d/f.txt", "n/f.txt")
            }),
        PairOperation(
            "rename twice", { [.place("f", in: "", as: "\($0.letter) 2.txt")] },
            {
                try $0.rename("d/f.txt", "d/\($1.letter) 1.txt")
                try $0.rename("d/\($1.letter) 1.txt", "\($1.letter) 2.txt")
            }),
        PairOperation(
            "swap",
            { _ in
                [.place("f", in: "d", as: "g.txt"), .place("g", in: "d", as: "f.txt")]
            },
            { desk, _ in
                try desk.rename("d/f.txt", "d/third.txt")
                try desk.rename("d/g.txt", "d/f.txt")
                try desk.rename("d/third.txt", "d/g.txt")
            }),
        PairOperation(
            "rename to h, make anew",
            {
                [.place("f", in: "d", as: "h.txt"), .create($0.new("f"), $0.file("f.txt"))]
            },
            {
                try $0.rename("d/f.txt", "d/h.txt")
                try $0.write("d/f.txt", $1.text)
            }),
    ]

    private static let creations = [
        PairOperation(
            "hard link h",
            { side in
                var twin = side.file("h.txt", side.before("f"))
                (twin.note, twin.linkedTo) = ("before", "f")
                return [.create(side.new("h"), twin)]
            }, { desk, _ in try desk.link("d/f.txt", "d/h.txt") }),
        PairOperation(
            "new h", { [.create($0.new("h"), $0.file("h.txt"))] },
            {
                try $0.write("d/h.txt", $1.text)
            }),
        PairOperation(
            "new h alike", { [.create($0.new("h"), $0.file("h.txt", $0.common))] },
            {
                try $0.write("d/h.txt", $1.common)
            }),
        PairOperation(
            "new folder h",
            {
                [
                    .create($0.new("h"), $0.folder("h.txt")),
                    .create($0.new("i"), $0.file("\($0.letter).txt", in: $0.new("h"))),
                ]
            },
            {
                try $0.makeDirectory("d/h.txt")
                try $0.write("d/h.txt/\($1.letter).txt", $1.text)
            }),
        PairOperation(
            "new link h", { [.create($0.new("h"), $0.link("h.txt", $0.letter))] },
            {
                try $0.link(to: $1.letter, "d/h.txt")
            }),
    ]

    private static let removals = [
        PairOperation(
            "delete", { _ in [.delete("f")] },
            { desk, _ in
                try desk.remove("d/f.txt")
            }),
        PairOperation(
            "edit, delete", { [.save("f", $0.text), .delete("f")] },
            {
                try $0.write("d/f.txt", $1.text)
                try $0.remove("d/f.txt")
            }),
        PairOperation(
            "delete, make anew", { [.save("f", $0.text), .note("f", nil)] },
            {
                try $0.remove("d/f.txt")
                try $0.write("d/f.txt", $1.text)
            }),
        PairOperation(
            "a folder instead",
            {
                [
                    .delete("f"), .create($0.new("f"), $0.folder("f.txt")),
                    .create($0.new("i"), $0.file("\($0.letter).txt", in: $0.new("f"))),
                ]
            },
            {
                try $0.remove("d/f.txt")
                try $0.makeDirectory("d/f.txt")
                try $0.write("d/f.txt/\($1.letter).txt", $1.text)
            }),
        PairOperation(
            "another target",
            {
                [.delete("l"), .create($0.new("l"), $0.link("l", $0.letter))]
            },
            {
                try $0.remove("d/l")
                try $0.link(to: $1.letter, "d/l")
            }),
    ]

    private static let folders = [
        PairOperation(
            "delete d", { _ in [.delete("d")] },
            { desk, _ in
                try desk.removeTree("d")
            }),
        PairOperation(
            "delete e", { _ in [.delete("e")] },
            { desk, _ in
                try desk.removeTree("e")
            }),
        PairOperation(
            "rename d", { [.place("d", in: "", as: $0.letter)] },
            {
                try $0.rename("d", $1.letter)
            }),
        PairOperation(
            "move d into e", { _ in [.place("d", in: "e", as: "d")] },
            { desk, _ in
                try desk.rename("d", "e/d")
            }),
        PairOperation(
            "move e into d", { _ in [.place("e", in: "d", as: "e")] },
            { desk, _ in
                try desk.rename("e", "d/e")
            }),
    ]

    private static let packages = [
        PairOperation(
            "edit package", { [.save("p", "TXT=\($0.text);pic=before")] },
            {
                try $0.write("d/p.rtfd/TXT", $1.text)
            }),
        PairOperation(
            "remove from package",
            { side in
                let text = PairSide(letter: "before", pair: side.pair).text
                return [.save("p", "TXT=\(text)")]
            }, { desk, _ in try desk.remove("d/p.rtfd/pic") }),
        PairOperation(
            "delete package", { _ in [.delete("p")] },
            { desk, _ in
                try desk.removeTree("d/p.rtfd")
            }),
        PairOperation(
            "rename package",
            {
                [.place("p", in: "d", as: "\($0.letter).rtfd")]
            }, { try $0.rename("d/p.rtfd", "d/\($1.letter).rtfd") }),
        PairOperation(
            "package to folder",
            { side in
                let before = PairSide(letter: "before", pair: side.pair)
                let folder = side.new("p")
                return [
                    .delete("p"), .create(folder, side.folder("p")),
                    .create(side.new("t"), side.file("TXT", in: folder, before.text)),
                    .create(side.new("i"), side.file("pic", in: folder, "before")),
                ]
            }, { desk, _ in try desk.rename("d/p.rtfd", "d/p") }),
    ]
}
