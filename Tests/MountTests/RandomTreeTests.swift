import Foundation
import Support
import Testing

/// Does random operations on `volume` and on a plain directory beside it, until `enough`.
func runRandomly(_ random: SeededRandom, until enough: (Int) -> Bool) throws {
    let home = try TemporaryDirectory()
    let model = "\(home.path)/model"
    try FileManager.default.createDirectory(atPath: model, withIntermediateDirectories: false)
    try MountedVolume.with { volume in
        let tree = RandomTree(random: random, tested: volume.path, model: model) {
            try volume.remount()
        }
        defer { tree.closeAll() }
        var steps = 0
        while !enough(steps) {
            try tree.run(steps: 500)
            steps += 500
        }
        tree.closeAll()
        // The plain files in the tree are what the mount showed.
        try volume.unmount()
        let left = try Command("diff", "-r", "--no-dereference", volume.tree, model).run()
        #expect(left.output == "", "the plain files differ")
    }
}

@Suite("Random operations on the mount")
struct RandomTreeTests {
    /// One fixed seed here, random seeds in `make soak`.
    @Test("do the same as on a plain directory")
    func same() throws {
        let random = SeededRandom(named: "RandomTree", usual: 3_024_131_565)
        try runRandomly(random) { $0 >= 40_000 }
    }
}
