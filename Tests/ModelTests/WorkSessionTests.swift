import Testing

@testable import Model

@Suite("Sessions") struct WorkSessionTests {
    @Test func aLabelIsShortAndPlain() {
        for text in ["agent-7", "a", "x/y@z+1=2_3.4", String(repeating: "a", count: 64)] {
            #expect(WorkSession(label: text)?.text == text)
        }
        for text in [
            "", "a b", "a:b", "a(b)", "ä", "a\n", "\u{1B}[31m", String(repeating: "a", count: 65),
        ] {
            #expect(WorkSession(label: text) == nil && WorkSession(text) == nil, "\(text)")
        }
    }

    @Test func aLabelIsNotTakenForTheKernelsAnswer() {
        let kernels = WorkSession(origin: "pts/3", leader: 4711, start: 0x1C9F_03AA)
        #expect(kernels.text == "pts/3.4711.1c9f03aa")
        #expect(WorkSession(kernels.text) == kernels && WorkSession(label: kernels.text) == nil)
        for text in ["pts/3.4711", "pts/3.x.1c9f03aa", "pts/3.4711.1c9f03a", "v1.2.3"] {
            #expect(WorkSession(label: text) != nil, "\(text)")
        }
        let long = WorkSession(
            origin: String(repeating: "ä unit", count: 20), leader: .max, start: .max)
        #expect(long.text.utf8.count == WorkSession.bytesMax && WorkSession(long.text) == long)
    }

    @Test func aSignatureIsReadAsItWasWritten() {
        let session = WorkSession("agent-7")
        for program in ["sed", "a (b)", ")", "", "x ()", "a(b"] {
            for session in [session, nil] {
                let text = Signature.text(program: program, session)
                let (name, known) = Signature.parse(text)
                #expect(name == program && known == session, "\(text)")
            }
        }
        // What an older build wrote, or a hostile one.
        for text in ["sed", "", ")", "()", "(agent-7)", "a (b c)", "a (b", "a(agent-7)"] {
            #expect(Signature.parse(text).program == text)
        }
    }
}
