import Testing

@testable import Model

@Suite("The access to a save") struct SavedAccessTests {
    @Test func isReadAsItWasWritten() {
        let owners = ["games", "#1007", "a b", "x]", "ä"].map { OwnerName($0.utf8) }
        for signature in ["sed", "sed (agent-7)", "a [600]", "]", "", "x []", "a [b"] {
            #expect(SavedAccess.split(SavedAccess.joined(signature, nil)) == (signature, nil))
            for owner in owners + [nil] {
                for mode in [0, 0o600, 0o644, 0o1777] as [UInt16] {
                    let access = SavedAccess(owner: owner, mode: mode)
                    let text = SavedAccess.joined(signature, access)
                    #expect(SavedAccess.split(text) == (signature, access), "\(text)")
                }
            }
        }
        #expect(
            SavedAccess.joined("sed", SavedAccess(owner: OwnerName("games".utf8), mode: 0o4600))
                == "sed [600 games]")
    }

    /// What could not be read back must not become another owner, or none.
    @Test func aNameWithABracketIsOfNobody() {
        let owner = SavedAccess(owner: OwnerName("a [600 b".utf8), mode: 0o600).owner
        #expect(owner != nil && owner?.isNumber == true)
    }

    /// What an older build wrote, or a hostile one.
    @Test func anythingElseIsTheSignature() {
        for text in [
            "sed", "", "]", "[]", "[600]", "a [8]", "a [2000]", "a [600 ]", "a [600 b:c]", "a[600]",
            "a [+7]", "a [600", "a [-1 b]", "a [ games]",
        ] {
            #expect(SavedAccess.split(text) == (text, nil), "\(text)")
        }
    }
}
