import CFuse
import CLinux
import Glibc
import Model
import SystemCalls
import Testing

@testable import Mount

/// The table of nodes without a kernel: lookups, forgetting, renames and removals.
@Suite struct NodeTableTests {
    private let table: NodeTable

    init() throws {
        let root = SharedDescriptor(owning: try check(cl_openat(AT_FDCWD, "/", Flag.path, 0)))
        table = NodeTable(root: root, inode: 2, directoriesMax: 4)
    }

    private func status(_ inode: UInt64, directory: Bool = false, links: Int = 1) -> stat {
        var status = stat()
        status.st_ino = ino_t(inode)
        status.st_mode = directory ? S_IFDIR | 0o755 : S_IFREG | 0o644
        status.st_nlink = nlink_t(links)
        return status
    }

    private func descriptor() throws(Errno) -> SharedDescriptor {
        SharedDescriptor(owning: try check(cl_openat(AT_FDCWD, "/", Flag.path, 0)))
    }

    @Test func rootIsNumberOneAndStays() {
        #expect(table.root.id == 1)
        table.forget(1, count: 1000)
        #expect(table[1] === table.root)
    }

    @Test func twoNamesOfOneInodeAreOneNode() {
        let first = table.enter("a", in: table.root, status: status(10)).node
        let second = table.enter("b", in: table.root, status: status(10)).node
        #expect(first === second)
        #expect(first.lookups == 2)
        #expect(table.path(of: first) == [Name("b")])
    }

    @Test func forgettingEveryLookupFreesTheNumberForGood() {
        let id = table.enter("a", in: table.root, status: status(10)).node.id
        _ = table.enter("a", in: table.root, status: status(10))
        table.forget(id)
        #expect(table[id] != nil)
        table.forget(id)
        #expect(table[id] == nil)
        #expect(table.count == 1)
        let next = table.enter("a", in: table.root, status: status(10)).node.id
        #expect(next != id)
        #expect(table[id] == nil)
    }

    @Test func aDirectoryIsKnownAsLongAsSomethingBelowIt() {
        let directory = table.enter("d", in: table.root, status: status(20, directory: true)).node
        let file = table.enter("f", in: directory, status: status(21)).node
        table.forget(directory.id)
        #expect(table[directory.id] === directory)
        #expect(table.path(of: file) == [Name("d"), Name("f")])
        table.forget(file.id)
        #expect(table[directory.id] == nil)
        #expect(table.count == 1)
    }

    @Test func renamingADirectoryMovesWhatIsBelow() {
        let from = table.enter("from", in: table.root, status: status(30, directory: true)).node
        let to = table.enter("to", in: table.root, status: status(31, directory: true)).node
        let directory = table.enter("d", in: from, status: status(32, directory: true)).node
        let file = table.enter("f", in: directory, status: status(33)).node
        table.renamed(directory, to: "e", in: to, isLocal: false)
        #expect(table.path(of: file) == [Name("to"), Name("e"), Name("f")])
        table.forget(from.id)
        #expect(table[from.id] == nil)
    }

    @Test func aRemovedFileKeepsItsDescriptorAndItsInodeMayBeReused() throws {
        let old = table.enter("a", in: table.root, status: status(40)).node
        try table.pin(old, descriptor)
        table.unnamed(old, "a", in: table.root, isGone: true, isStashed: true)
        table.unpin(old)
        #expect(table.descriptor(of: old) != nil)
        #expect(table.path(of: old) == nil)
        #expect(table.position(of: old).isStashed)
        #expect(table.known(40) == nil)
        let new = table.enter("a", in: table.root, status: status(40)).node
        #expect(new !== old)
        table.forget(old.id)
        #expect(table.known(40) === new)
    }

    @Test func aHandleReleasedDuringARemovalDoesNotTakeTheDescriptor() throws {
        let node = table.enter("a", in: table.root, status: status(60)).node
        let (state, file) = table.use(node, try descriptor())
        try table.pin(node, descriptor)
        table.endUse(of: node, state)
        #expect(table.descriptor(of: node) === file)
        table.unpin(node)
        #expect(table.descriptor(of: node) == nil, "The removal has failed.")
    }

    @Test func aFileThatLostOneOfTwoNamesIsFoundByTheOther() throws {
        let node = table.enter("a", in: table.root, status: status(50, links: 2)).node
        try table.pin(node, descriptor)
        table.unnamed(node, "a", in: table.root, isGone: false, isStashed: false)
        table.unpin(node)
        #expect(table.descriptor(of: node) != nil)
        let again = table.enter("b", in: table.root, status: status(50)).node
        #expect(again === node)
        #expect(table.descriptor(of: node) == nil, "It has a name, so it needs no descriptor.")
        #expect(table.path(of: node) == [Name("b")])
    }

    @Test func aNewFileWithAReusedInodeIsAnotherNode() {
        let old = table.enter("a", in: table.root, status: status(60)).node
        let new = table.enter("b", in: table.root, status: status(60), fresh: .local).node
        #expect(old !== new)
        #expect(table.flags(of: new).contains(.local))
        table.renamed(new, to: "c", in: table.root, isLocal: false)
        #expect(!table.flags(of: new).contains(.local))
    }

    @Test func anOpenFileKeepsItsDescriptorUntilTheLastUseEnds() throws {
        let node = table.enter("a", in: table.root, status: status(70)).node
        let (state, first) = table.use(node, try descriptor())
        let (_, second) = table.use(node, try descriptor())
        #expect(first === second)
        table.forget(node.id)
        #expect(table[node.id] != nil, "A node in use is not freed.")
        table.endUse(of: node, state)
        #expect(table.descriptor(of: node) != nil)
        table.endUse(of: node, state)
        #expect(table[node.id] == nil)
    }

    @Test func aFileWithoutANameGetsOneByLink() throws {
        let node = table.enterOrphan(try descriptor(), status: status(80), fresh: .unsaved)
        #expect(table.known(80) == nil)
        table.linked(node, "a", in: table.root, isLocal: false)
        #expect(table.known(80) === node)
        #expect(table.path(of: node) == [Name("a")])
        #expect(node.lookups == 2)
    }

    @Test func directoriesShareFewDescriptors() throws {
        for inode in UInt64(100)..<140 {
            let node = table.enter(
                "d\(inode)", in: table.root, status: status(inode, directory: true)
            ).node
            _ = table.keep(try descriptor(), ofDirectory: node)
            #expect(table.descriptor(of: node) != nil)
        }
        #expect(table.descriptorCount <= 4 + 1)
    }
}
